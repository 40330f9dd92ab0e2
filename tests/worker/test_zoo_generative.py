"""U-Net, VAE and StyleGAN2 follow their papers."""

import math
from pathlib import Path

import msgspec
import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from orchestrator.config import catalogue
from protocol.cell import InputSpec, ModelSpec, Workload
from tests.fakes.assignments import STYLEGAN2, UNET, VAE, assignment, run_here
from tests.fakes.spies import spy
from worker import memory
from worker.models import stylegan2, stylegan2_discriminator, unet, vae
from worker.models.base import Batch, Feed
from worker.models.stylegan2_networks import Discriminator, Filter, Generator, MinibatchDeviation, ModulatedConvolution

CPU = torch.device("cpu")
SHIPPED = catalogue.load().models
CRITIC = msgspec.structs.replace(
    STYLEGAN2,
    name="tiny-critic",
    family="stylegan2-discriminator",
    config={"resolution": "size", "channel_base": 64, "channel_max": 8},
    inputs=(InputSpec(name="images", shape=("batch", 3, "size", "size")),),
)
IMAGES = {"images": torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))}


def test_unet_segments_every_pixel() -> None:
    """The mask is as large as the image, and depends on a far pixel through the lowest level."""
    torch.manual_seed(1)
    module = unet.build(UNET, CPU, None).eval()
    logits = unet.forward(module, IMAGES)
    assert logits.shape == (3, 2, 16, 16)
    changed = IMAGES["images"].clone()
    changed[:, :, 0, 0] += 10
    assert not torch.equal(unet.forward(module, {"images": changed})[..., 8, 8], logits[..., 8, 8])


def test_the_vae_draws_its_code() -> None:
    """Two passes over the same images differ; with the same seed they do not."""
    module = vae.build(VAE, CPU, None).eval()

    def again(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return vae.forward(module, IMAGES)

    assert torch.equal(again(1), again(1))
    assert not torch.equal(again(1), again(2))


def test_the_loss_of_the_vae_is_its_evidence_lower_bound() -> None:
    """As torch's own distributions say it, a number of the images."""
    module = vae.build(VAE, CPU, None).eval()
    images = IMAGES["images"]
    torch.manual_seed(1)
    made, mean, log_variance = module(images)
    likelihood = Normal(made, 1.0).log_prob(images) + 0.5 * math.log(2 * math.pi)
    divergence = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), Normal(0.0, 1.0))
    torch.manual_seed(1)
    torch.testing.assert_close(vae.loss(module, IMAGES), (divergence.sum() - likelihood.sum()) / images.numel())


GENERATOR, DISCRIMINATOR = 30_370_060, 29_012_513
"""Parameters that the published code prints for configuration F at 1024 pixels."""


def test_networks_of_stylegan2_are_as_large_as_published() -> None:
    """Each is built alone for inference, to 0.5 % of the parameters; the step that trains them has both."""
    meta, shipped = torch.device("meta"), {model.name: model for model in SHIPPED}
    with meta:
        generator = Generator(resolution=1024, latent=512, layers=8, base=32768, most=512)
        discriminator = Discriminator(resolution=1024, base=32768, most=512)
    assert memory.parameter_count(generator) == GENERATOR
    assert memory.parameter_count(discriminator) == DISCRIMINATOR
    alone = stylegan2.build_for_inference(shipped["stylegan2"], meta, 1024)
    critic = stylegan2_discriminator.build(shipped["stylegan2-critic"], meta, 1024)
    assert memory.parameter_count(alone) == pytest.approx(GENERATOR, rel=0.005)
    assert memory.parameter_count(critic) == pytest.approx(DISCRIMINATOR, rel=0.005)
    both = stylegan2.build(shipped["stylegan2"], meta, 1024)
    assert memory.parameter_count(both) == GENERATOR + DISCRIMINATOR


@pytest.mark.parametrize("model", [STYLEGAN2, CRITIC], ids=lambda spec: spec.name)
@pytest.mark.parametrize("workload", [Workload.LOAD, Workload.INFERENCE, Workload.TRAINING])
def test_cell_has_the_networks_that_it_runs(tmp_path: Path, model: ModelSpec, workload: Workload) -> None:
    """A network that it does not run is neither in its parameters nor in its memory."""
    generator = memory.parameter_count(stylegan2.build_for_inference(STYLEGAN2, CPU, 16))
    both = memory.parameter_count(stylegan2.build(STYLEGAN2, CPU, 16))
    trains = workload is Workload.TRAINING
    expected = both - generator if model is CRITIC else both if trains else generator
    result = run_here(assignment(model, workload, tmp_path, batch_size=4))
    assert result.parameters == expected
    assert result.memory.model_bytes == pytest.approx(4 * expected, rel=0.2)


def test_inputs_of_a_loss_are_not_kept_for_inference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The images that a discriminator learns from take no memory where a generator runs."""
    seen = spy(monkeypatch, stylegan2, "forward", lambda _, _module, batch: set(batch))
    run_here(assignment(STYLEGAN2, Workload.INFERENCE, tmp_path))
    assert seen[0] == {"latents"}


@pytest.mark.parametrize("up", [False, True], ids=["same size", "doubled"])
def test_modulation_is_that_of_the_paper(up: bool) -> None:
    """Each image has weights of its own: times its style, divided by their norm (equations 1 and 3)."""
    torch.manual_seed(1)
    layer = ModulatedConvolution(4, 6, 3, latent=5, up=up)
    features, style = torch.randn(2, 4, 8, 8), torch.randn(2, 5)
    expected = []
    for image, factors in zip(features, layer.style(style), strict=True):
        weight = layer.weight / math.sqrt(4 * 9) * factors[:, None, None]
        weight = weight / (weight.square().sum((1, 2, 3), keepdim=True) + 1e-8).sqrt()
        if up:
            made = functional.conv_transpose2d(image[None], weight.transpose(0, 1), stride=2)
            expected.append(layer.after(made))
        else:
            expected.append(functional.conv2d(image[None], weight, padding=1))
    torch.testing.assert_close(layer(features, style), torch.cat(expected))


def test_filters_keep_what_is_even() -> None:
    """A grey image twice as large is the same grey, away from the border where nothing lies beyond."""
    grey = torch.full((1, 3, 8, 8), 0.5)
    larger = Filter(padding=1, gain=4.0).doubled(grey)
    assert larger.shape == (1, 3, 16, 16)
    torch.testing.assert_close(larger[..., 1:-1, 1:-1], torch.full((1, 3, 14, 14), 0.5))


@pytest.mark.parametrize(("batch", "group"), [(8, 4), (6, 2), (5, 1)])
def test_images_are_compared_within_groups_that_the_batch_allows(batch: int, group: int) -> None:
    """Alike images show no deviation, different ones show it, and a group of one has none but passes gradients."""
    alike = MinibatchDeviation()(torch.ones(batch, 4, 2, 2))
    assert alike.shape == (batch, 5, 2, 2)
    torch.testing.assert_close(alike[:, 4], torch.full((batch, 2, 2), 1e-4))
    features = torch.randn(batch, 4, 2, 2, generator=torch.Generator().manual_seed(1)).requires_grad_()
    different = MinibatchDeviation()(features)[:, 4]
    assert (different > 0.1).all() == (group > 1)
    different.sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


def test_the_generator_adds_noise_of_its_own() -> None:
    """The same latents make other images once the noise has any strength; and no image is as another's."""
    module = stylegan2.build(STYLEGAN2, CPU, 16).eval()
    latents = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    first = module(latents)
    assert torch.equal(first, module(latents))
    assert not torch.equal(first[0], first[1])
    for name, parameter in module.named_parameters():
        if name.endswith("noise_strength"):
            torch.nn.init.ones_(parameter)
    assert not torch.equal(first, module(latents))


def test_each_part_of_a_stylegan2_step_trains_one_network() -> None:
    """Together they train everything; the discriminator's loss gives the generator no gradient."""
    module = stylegan2.build(STYLEGAN2, CPU, 16).train()
    trained = []
    for objective in stylegan2.objectives(module):
        loss = objective.loss(module, feed(STYLEGAN2))
        loss.backward(inputs=list(objective.parameters(module)))
        trained.append({name for name, parameter in module.named_parameters() if parameter.grad is not None})
        module.zero_grad()
    assert trained[0].isdisjoint(trained[1])
    assert trained[0] | trained[1] == {name for name, _ in module.named_parameters()}
    stylegan2.discriminator_loss(module, feed(STYLEGAN2)).backward()
    assert all(parameter.grad is None for parameter in module.generator.parameters())


def test_training_stylegan2_teaches_both_networks() -> None:
    """Each network trained alone lowers its own loss."""
    torch.manual_seed(1)
    module = stylegan2.build(STYLEGAN2, CPU, 16).train()
    batch = feed(STYLEGAN2)
    for objective in stylegan2.objectives(module):
        optimizer = torch.optim.Adam(objective.parameters(module), lr=0.01, betas=(0.0, 0.99))
        before = objective.loss(module, batch).item()
        for _ in range(8):
            optimizer.zero_grad()
            objective.loss(module, batch).backward()
            optimizer.step()
        assert objective.loss(module, batch).item() < 0.9 * before


@pytest.mark.parametrize("resolution", [768, 4])
def test_a_resolution_that_no_doubling_reaches_is_refused(resolution: int) -> None:
    """With what is possible."""
    with pytest.raises(ValueError, match=f"power of two .*4, not {resolution}"):
        stylegan2.build(STYLEGAN2, torch.device("meta"), resolution)


def feed(spec: ModelSpec) -> Batch:
    assert msgspec.structs.asdict(spec)["sizes"].default == 16
    source = Feed(batch_size=4, input_size=16, device=CPU, dtype=torch.float32, seed=1)
    return stylegan2.batch(spec, source)
