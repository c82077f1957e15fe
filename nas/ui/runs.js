(() => {
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const body = document.querySelector("#runs tbody");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${body.rows.length} runs`;
  };
  filter.addEventListener("input", apply);
  apply();

  // rows that changed are replaced where they stand, so that the order stays; new ones come first
  const refresh = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch("/");
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const known = new Map([...body.rows].map((row) => [row.dataset.run, row]));
        for (const row of [...page.querySelectorAll("#runs tbody tr")].reverse()) {
          const old = known.get(row.dataset.run);
          if (!old) body.prepend(row);
          else if (old.innerHTML !== row.innerHTML) old.replaceWith(row);
        }
        apply();
      } catch {
        count.textContent = "the server does not answer";
      }
    }
    setTimeout(refresh, 3000);
  };
  setTimeout(refresh, 3000);
})();
