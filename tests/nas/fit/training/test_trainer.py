"""The training loop, on a CPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Images
from nas.fit.training.evaluation import accuracy_of
from nas.fit.training.recipe import RECIPES
from nas.fit.training.teaching import Teaching, answers_to
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import (
    DivergedTrainingError,
    TrainingOptions,
    _Best,
    seconds_an_epoch,
    train,
)

SHORT = replace(RECIPES["nas_bench_201"], epochs=4, batch_size=32)


def run(network, images, recipe=SHORT, *, on=TrainOn.train, **options):
    return train(network, images, recipe, TrainingOptions(**options), device="cpu", on=on)


def weights(network):
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def assert_equal(network, expected):
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("recipe", [SHORT, replace(SHORT, adamw=True, lr=0.05)])
def test_a_network_learns(tiny, brightness, recipe):
    network = tiny()

    trained = run(network, brightness, replace(recipe, epochs=8))

    assert trained.accuracy > 0.8
    assert trained.losses[-1] < trained.losses[0]
    assert trained.epochs == len(trained.losses) == len(trained.accuracies) == 8


def test_the_seed_decides_the_training(tiny, brightness):
    def trained(seed):
        network = tiny()
        run(network, brightness, seed=seed)
        return network

    assert_equal(trained(1), weights(trained(1)))
    with pytest.raises(AssertionError):
        assert_equal(trained(1), weights(trained(2)))


def test_statistics_of_a_short_training_are_those_of_its_images(tiny, brightness):
    network, again = tiny(), tiny(0, nn.Dropout(0.5))
    state = torch.random.get_rng_state()
    one_epoch = replace(SHORT, epochs=1)

    trained = run(network, brightness, one_epoch)
    run(again, brightness, one_epoch)

    # the first layer answers its inputs, of which the statistics are computed by hand
    means, sds = (torch.tensor(each) * 255 for each in (brightness.mean, brightness.sd))
    images = (torch.from_numpy(brightness.train.pixels) - means) / sds
    with torch.no_grad():
        outputs = network[0](images.permute(0, 3, 1, 2).float())
    torch.testing.assert_close(network[1].running_mean, outputs.mean((0, 2, 3)))
    torch.testing.assert_close(network[1].running_var, outputs.var((0, 2, 3)))
    assert trained.accuracy == accuracy_of(network, brightness.valid, brightness, device="cpu")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_statistics_of_a_network_that_has_them_are_not_renewed(tiny, brightness):
    network = tiny()
    nn.init.constant_(network[1].running_mean, 100.0)

    run(network, brightness, replace(SHORT, epochs=1))

    assert (network[1].running_mean > 1).all()


@pytest.mark.parametrize(("metric", "is_kept"), [(0.0, True), (0.5, False)])
def test_equal_epochs_are_kept_where_a_metric_is_cut_at_0(tiny, metric, is_kept):
    network = tiny()
    best = _Best(network, metric)
    with torch.no_grad():
        next(network.parameters()).fill_(7)

    best.consider(metric)

    assert best.load() == metric
    assert bool((next(network.parameters()) == 7).all()) is is_kept


@pytest.mark.parametrize(
    "recipe",
    [
        SHORT,
        replace(SHORT, ema=0.2, warm_up=0.2, label_smoothing=0.1),
        replace(SHORT, adamw=True, lr=0.01),
    ],
)
@pytest.mark.parametrize("stopped_after", [1, 3])
def test_a_resumed_training_ends_with_the_same_weights_bit_by_bit(
    tiny, brightness, tmp_path, recipe, stopped_after
):
    network = tiny(0, nn.Dropout(0.2))
    whole = run(network, brightness, recipe, seed=3)

    checkpoint = tmp_path / "training.safetensors"
    finished = []
    run(
        tiny(0, nn.Dropout(0.2)),
        brightness,
        recipe,
        seed=3,
        checkpoint=checkpoint,
        on_epoch=finished.append,
        stop=lambda: len(finished) == stopped_after,
    )
    resumed = tiny(7, nn.Dropout(0.2))
    parts = run(resumed, brightness, recipe, seed=3, checkpoint=checkpoint)

    assert len(finished) == stopped_after
    assert_equal(resumed, weights(network))
    assert parts.losses == whole.losses
    assert parts.accuracy == whole.accuracy


def test_a_checkpoint_of_another_training_is_refused(tiny, brightness, tmp_path):
    checkpoint = tmp_path / "training.safetensors"
    run(tiny(), brightness, checkpoint=checkpoint)

    with pytest.raises(UserError, match="seed=0"):
        run(tiny(), brightness, seed=1, checkpoint=checkpoint)
    other = tiny(0, nn.Conv2d(8, 8, 1))
    with pytest.raises(UserError, match="of another network"):
        run(other, brightness, checkpoint=checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    with pytest.raises(UserError, match="is not a checkpoint of a training"):
        run(tiny(), brightness, checkpoint=checkpoint)


def test_a_loss_that_is_not_finite_ends_the_training(tiny, brightness):
    with pytest.raises(DivergedTrainingError, match="its loss is nan in epoch 1 of 4"):
        run(tiny(), brightness, replace(SHORT, lr=1e30))


def test_smaller_batches_and_their_rate_are_told(tiny, brightness):
    images, recipe = len(brightness.train), replace(SHORT, batch_size=512, most_steps=200, lr=0.32)
    batch = recipe.batch_of(images)

    (note,) = run(tiny(), brightness, recipe).notes

    assert batch < 512
    assert f"({images:,}): batches of {batch} instead of 512, " in note
    assert note.endswith(f"learning rate {0.32 * batch / 512:.3g} instead of 0.32")


class Hungry(nn.Module):
    """Runs out of memory beyond a number of images."""

    def __init__(self, most, error=torch.OutOfMemoryError):
        super().__init__()
        self.most, self.error = most, error

    def forward(self, images):
        if self.training and len(images) > self.most:
            raise self.error("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'")
        return images


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_a_batch_that_needs_too_much_memory_is_cut_into_smaller_ones(brightness, error):
    recipe = replace(SHORT, batch_size=8, epochs=2, lr=0.01)
    # without batch normalisation, whose statistics would differ
    roomy = nn.Sequential(Hungry(8), nn.Flatten(), nn.Linear(192, 4))
    narrow = nn.Sequential(Hungry(3, error), nn.Flatten(), nn.Linear(192, 4))
    narrow.load_state_dict(roomy.state_dict())

    whole = run(roomy, brightness, recipe)
    parts = run(narrow, brightness, recipe)

    assert whole.notes == ()
    assert parts.notes == ("micro-batches of 2 images: a batch of 8 needs too much memory",)
    assert parts.losses == pytest.approx(whole.losses, rel=1e-5)


def test_an_epoch_of_batches_that_need_too_much_memory_is_timed_in_smaller_ones(brightness):
    network = nn.Sequential(Hungry(3), nn.Flatten(), nn.Linear(192, 4))

    assert seconds_an_epoch(network, brightness, replace(SHORT, batch_size=8), device="cpu") > 0
    with pytest.raises(torch.OutOfMemoryError):
        seconds_an_epoch(nn.Sequential(Hungry(0), *network[1:]), brightness, SHORT, device="cpu")


def test_one_image_that_needs_too_much_memory_fails_the_training(tiny, brightness):
    with pytest.raises(torch.OutOfMemoryError):
        run(tiny(0, Hungry(0)), brightness)
    with pytest.raises(torch.OutOfMemoryError):
        seconds_an_epoch(tiny(0, Hungry(0)), brightness, SHORT, device="cpu")


def test_an_epoch_is_timed_in_the_parts_that_fit(tiny, brightness):
    assert seconds_an_epoch(tiny(0, Hungry(5)), brightness, SHORT, device="cpu") > 0


def test_training_on_validation_images_is_judged_on_test_images(tiny, brightness):
    network = tiny()

    trained = run(network, brightness, on=TrainOn.train_and_valid)

    assert trained.accuracy == accuracy_of(network, brightness.test, brightness, device="cpu")
    assert trained.accuracy != accuracy_of(network, brightness.valid, brightness, device="cpu")


def test_a_failed_training_leaves_those_beside_it_alone(tiny, brightness, together):
    alone = tiny(1)
    expected = run(alone, brightness, seed=5)
    beside = tiny(1)

    networks = [tiny(0, Hungry(0)), beside]
    failed, trained = together(networks, brightness, SHORT, [0, 5], device="cpu")

    assert isinstance(failed, torch.OutOfMemoryError)
    assert trained.losses == expected.losses
    assert_equal(beside, weights(alone))


def test_a_longer_training_goes_on_from_a_shorter_one(tiny, brightness, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    longer, network = replace(SHORT, epochs=6), tiny(1)
    shorter = run(tiny(), brightness, checkpoint=first)

    trained = run(network, brightness, longer, checkpoint=second, continues=first)
    again = run(tiny(), brightness, longer, checkpoint=second)

    assert trained.epochs == 6
    assert trained.losses[:4] == shorter.losses
    assert trained.losses[4] < shorter.losses[0]
    assert again.accuracy == trained.accuracy
    none = run(tiny(1), brightness, continues=first)
    assert none.accuracy == shorter.accuracy  # no epoch is left


def test_a_schedule_ends_with_the_epochs_that_are_left(tiny, brightness):
    whole = run(tiny(), brightness)
    same = run(tiny(), brightness, epochs_left=lambda epoch: epoch.epochs - epoch.number)
    shorter = run(tiny(), brightness, epochs_left=lambda epoch: 3 - epoch.number)
    stretched = run(tiny(), brightness, planned=2, epochs_left=lambda epoch: 3 - epoch.number)

    assert same.losses == whole.losses
    assert shorter.epochs == 3
    assert shorter.is_complete
    assert shorter.losses[0] == whole.losses[0]
    assert shorter.losses[2] != whole.losses[2]  # its learning rate is near the end of the schedule
    assert stretched.epochs == 3
    assert stretched.losses[0] != whole.losses[0]


def test_a_training_that_only_harms_ends_as_it_began(tiny, brightness):
    network = tiny()
    run(network, brightness)
    before = weights(network)

    trained = run(network, brightness, replace(SHORT, lr=50.0), keeps_best=True)

    assert_equal(network, before)
    assert trained.accuracy > trained.accuracies[-1]
    assert trained.is_beginning


def test_a_training_that_goes_on_from_a_worse_one_ends_as_its_network_began(
    tiny, brightness, tmp_path
):
    network, spoilt = tiny(), tmp_path / "spoilt"
    run(network, brightness)
    before, harmful = weights(network), replace(SHORT, lr=50.0)
    run(tiny(), brightness, harmful, checkpoint=spoilt)

    run(network, brightness, replace(harmful, epochs=6), continues=spoilt, keeps_best=True)

    assert_equal(network, before)


def test_a_training_that_is_taken_over_whole_has_not_failed_to_help(tiny, brightness, tmp_path):
    whole = tmp_path / "whole"
    run(tiny(), brightness, checkpoint=whole)

    assert not run(tiny(), brightness, continues=whole, keeps_best=True).is_beginning


def test_the_best_weights_are_those_of_a_late_epoch_as_they_were_judged(tiny, brightness):
    network = tiny()
    recipe = replace(SHORT, epochs=8, ema=0.5)

    trained = run(network, brightness, recipe, keeps_best=True)

    assert trained.accuracy == max(trained.accuracies[6:])
    assert accuracy_of(network, brightness.valid, brightness) == pytest.approx(trained.accuracy)


def test_an_early_epoch_is_not_the_best(tiny, brightness):
    network = tiny()
    run(network, brightness)

    @torch.no_grad()
    def reverse():
        for parameter in network[-1].parameters():
            parameter.neg_()

    def after(epoch):
        if epoch.number in (1, 2):  # so that the second epoch alone is judged as it was trained
            reverse()

    reverse()
    still = replace(SHORT, epochs=8, lr=1e-6)
    trained = run(network, brightness, still, keeps_best=True, on_epoch=after)

    assert max(trained.accuracies) == trained.accuracies[1]
    assert trained.accuracy < trained.accuracies[1]


def test_a_training_that_is_stopped_early_ends_with_its_last_epoch(tiny, brightness):
    done = []

    trained = run(
        tiny(),
        brightness,
        replace(SHORT, epochs=8),
        keeps_best=True,
        on_epoch=done.append,
        stop=lambda: len(done) == 2,
    )

    assert trained.accuracy == trained.accuracies[-1] == done[1].accuracy
    assert not trained.is_beginning


def test_a_rare_class_counts_as_much_as_a_frequent_one(tiny, brightness):
    rare = replace(brightness.valid, labels=np.repeat([0, 1], [54, 6]))
    network = tiny()
    with torch.no_grad():
        network[-1].bias.copy_(torch.tensor([50.0, 0, 0, 0]))

    trained = run(network, replace(brightness, valid=rare), replace(SHORT, epochs=1, lr=1e-9))

    assert trained.accuracy == pytest.approx(0.5)


def test_accuracy_is_evaluated_every_few_epochs_and_after_the_last(tiny, brightness):
    trained = run(tiny(), brightness, evaluate_every=3)

    assert [accuracy is None for accuracy in trained.accuracies] == [True, True, False, False]


def test_subnetworks_are_chosen_by_the_number_of_each_step(tiny, brightness):
    steps = []

    def chosen(network, step):
        return [lambda: steps.append((network, step))]

    network = tiny()
    run(network, brightness, subnetworks=chosen)

    assert steps == [(network, step) for step in range(4 * (200 // 12))]


def test_a_student_learns_from_its_teacher_what_random_labels_do_not_say(tiny, brightness):
    teacher, student = tiny(), tiny(1)
    run(teacher, brightness, replace(SHORT, epochs=8))
    teaching = Teaching(
        "teacher", answers_to(teacher, [brightness.train], brightness, mirrors=True)
    )
    labels = np.random.default_rng(0).integers(0, 4, len(brightness.train))
    random = replace(brightness, train=replace(brightness.train, labels=labels))

    run(student, random, replace(SHORT, epochs=12), teaching=teaching)

    assert accuracy_of(student, brightness.test, brightness) > 0.6


def test_a_student_learns_classes_that_only_images_without_labels_show(tiny, brightness):
    teacher, student = tiny(), tiny(1)
    run(teacher, brightness, replace(SHORT, epochs=8))
    seen = brightness.train.labels < 2
    train, others = (
        Images(brightness.train.pixels[which], brightness.train.labels[which])
        for which in (seen, ~seen)
    )
    images, others = replace(brightness, train=train), replace(others, labels=others.labels * 0 - 1)
    answers = answers_to(teacher, [train, others], brightness, mirrors=True)

    run(student, images, replace(SHORT, epochs=20), teaching=Teaching("its", answers, others))

    assert accuracy_of(student, brightness.test, brightness) > 0.6
