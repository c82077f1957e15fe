"""The public files that `python -m nas.data fetch` downloads, with their sizes and SHA-256.

Both sources are pinned to a commit, and each file to its SHA-256. Reading them runs no code: one is
a CSV, the others are read by torch with `weights_only=True`.
"""

from __future__ import annotations

from nas.spaces.public_data import RemoteFile

MIRROR = "https://raw.githubusercontent.com"

ACCURACY_FOLDER = "v-tao/nats-bench-landscape/b307ae5fe6e8d7043cd4fe7d1c3532288271adb7"
"""Test accuracy of the 15,625 cells, from NATS-Bench (Dong et al., TPAMI 2021)."""

HELP_FOLDER = "HayeonLee/HELP/45f70eb92d0d735970a33b608d1544ad3c52f285/data/nasbench201"
"""Latency on 25 devices (Lee et al., HELP, NeurIPS 2021); MIT licence."""


PUBLISHED_ACCURACY = RemoteFile(
    f"{ACCURACY_FOLDER}/nats_bench.csv",
    "nats_bench.csv",
    "cb5d777ec3368be83c8f9b3aa4d520696051cb0eb8d94b8f85b519f9ea4afa3e",
    3_024_008,
)

HELP_INDEX = RemoteFile(
    f"{HELP_FOLDER}/str_arch2idx.pt",
    "help/str_arch2idx.pt",
    "e1d7b7cc7cf51d7c3cd6f9e726e7395bea87d7ba674e26202fb8633f963aef0d",
    1_536_943,
)
"""Row of each architecture in the latency lists."""

_HELP_SHA256 = {
    "1080ti_1": "4028f52b2c2441da126932e3827ae11a7f76d39818c4374c1b9ab9df236e23f4",
    "1080ti_256": "435af0ccfab01f5dc55dc9f2e8b90ca37b396b2656e327bba5ee0b6eb9c24464",
    "1080ti_32": "affce4fcdcf6f28622365995ef2ec018bb07d448add59f80633c0978c393cdea",
    "2080ti_1": "38cf0e8f698abf8696c69b41a358fe9ddedf5d54cb1ae6f85b04dd8a8f89a1b3",
    "essential_ph_1": "a97165c8669a216b9ca046041c83a07352bd07f2a42e2d8fea8b51e7ddbcabf0",
    "eyeriss": "6f1dd2f8c0442289a09ab78e63e49bde96489f6d455cc33d5fa5aed37edb5d03",
    "fpga": "6a0333c1476a3ab039d8c39e5d42ac99efe9e7f3ff521289569013fa84233b28",
    "gold_6226": "6a00f63d14f67f8007ec04519f638a90aa6ed5357cf5c0e60c391df37f186c99",
    "gold_6240": "ac6dd41f183de69bba21dec3954ac73333b7dec871e0defbcce0572d82536890",
    "pixel2": "051845ddefc2bc138f21e2217f6c7827fe280c78375cbfb4b5bd252a888cb950",
    "pixel3": "cf1387da12e06b1d4541ce85f3ca4869d551084e09daf4acf024b6e21a80d465",
    "raspi4": "2fae425c50bcaef7aacc5391244cd0af98bfc7fba689a8741e461cb18192f57c",
    "samsung_a50": "0872cb4ec8ecc7ea1b3bd8c98dd705f2d0f6e4940f3af833b313e484de39b155",
    "samsung_s7": "dbae32364b882022adb044b2aa1af77b66f43a180930d9be4d4c13532429f0ea",
    "silver_4114": "0cce9dc9ba62ad81c21275298a88cb0e4534db6474a878f089df0abb13293421",
    "silver_4210r": "f976049bda39abde94b8f8cac90140cb78a5069fc145c462d6d6bc2f8450727a",
    "titan_rtx_1": "a854dac331e2a37d7dcd6ee1f63d1bc6d73ead3aeb0a86f803f45ea1b294859e",
    "titan_rtx_256": "cff1fba40b1743d3716cfb74c86ac2463d0682c146f356fa9095ac0d02dfb2a5",
    "titan_rtx_32": "1258bee5501fe191530b9898a4f55a122ab30beec9c6ea74598c47a0173babed",
    "titanx_1": "3461cc686263bd0ce4d4cd915bfc2fe067deb139cc68da387741bd6443434cb0",
    "titanx_256": "04ddb80719515687bd3d722235cd5da821b50bd453a9e580b1e9d321dfb92941",
    "titanx_32": "9c4ca69131e34451fb1e104caa47efbe12ffec3cc47bf051613674d7af044ff2",
    "titanxp_1": "935aa0041c6592bed90f2f94ff3b4d40e892c066467864b704e6583682a57b20",
    "titanxp_256": "9f03206bc62b0dcfc882820de07f55dc1fb7f43f57dfc977e4f0f4b019cb5041",
    "titanxp_32": "4b6db63c7a9fb55177aa2649d70031dd86d2ed1609467ef5803dc1089a73cb1b",
}
_WHOLE_MS_DEVICES = ("essential_ph_1", "pixel2", "samsung_a50", "samsung_s7")

HELP_LATENCIES = tuple(
    RemoteFile(
        f"{HELP_FOLDER}/latency/{device}.pt",
        f"help/{device}.pt",
        sha256,
        31_663 if device in _WHOLE_MS_DEVICES else 141_039,  # small integers, or floats
    )
    for device, sha256 in _HELP_SHA256.items()
)

FILES = (PUBLISHED_ACCURACY, HELP_INDEX, *HELP_LATENCIES)
