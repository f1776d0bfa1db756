"""TISA: facts beyond the general laws."""

import pytest
import torch

from relpos.errors import RelposError
from relpos.model.kernels import eager
from relpos.model.position import Fixed, Tisa
from relpos.model.shape import Shape
from relpos.ranges import shown
from schemes import SHAPE, batch, model_of


def one_kernel(centre: float) -> Tisa:
    scheme = Tisa(SHAPE, kernels=1)
    with torch.no_grad():
        for parameter, value in ((scheme.amplitude, 2.0), (scheme.sharpness, -0.5), (scheme.centre, centre)):
            parameter.fill_(value)
    return scheme


@pytest.mark.parametrize("centre", [1, -1, 3])
def test_a_centre_at_plus_1_looks_at_the_right_neighbour(centre: int) -> None:
    scheme, x = one_kernel(centre), torch.zeros(1, SHAPE.heads, 9, SHAPE.head_dim)
    added = eager.scores(None, None, scheme.terms(0, x, x, scheme.prepare(9)), x)[0, 0]
    assert (added.argmax(1)[3:-3] == torch.arange(3, 6) + centre).all()
    assert added.max().item() == pytest.approx(2.0)


def test_the_sign_of_a_sharpness_says_nothing() -> None:
    scheme = one_kernel(1)
    before = scheme.prepare(9)[0].clone()
    with torch.no_grad():
        scheme.sharpness.neg_()
    assert torch.equal(scheme.prepare(9)[0], before)


def test_sampled_at_whole_numbers_it_is_a_wide_fixed_kernel() -> None:
    n = 7
    torch.manual_seed(0)
    scheme, fixed = Tisa(SHAPE).double(), Fixed(SHAPE, k=n - 1).double()
    a, b, c = (x.detach() for x in (scheme.amplitude, scheme.sharpness, scheme.centre))
    with torch.no_grad():
        for o in range(1 - n, n):
            fixed.beta[:, :, o + n - 1] = (a * torch.exp(-b.abs() * (c - o) ** 2)).sum(-1)
    for layer in range(SHAPE.layers):
        torch.testing.assert_close(scheme.prepare(n)[layer], fixed.prepare(n)[layer])


def test_layers_and_heads_have_kernels_of_their_own() -> None:
    torch.manual_seed(0)
    offsets = torch.stack(Tisa(SHAPE).prepare(5)).flatten(0, 1)
    assert len({tuple(row.tolist()) for row in offsets}) == SHAPE.layers * SHAPE.heads


def test_a_longer_sequence_continues_the_same_function() -> None:
    torch.manual_seed(0)
    scheme = Tisa(SHAPE)
    # Not the same bits: a processor computes exp by other instructions at the end of a row than inside it.
    torch.testing.assert_close(scheme.prepare(40)[1][:, 20:-20], scheme.prepare(20)[1])


def test_without_kernels_nothing_is_added() -> None:
    model, plain = model_of("tisa", kernels=0).eval(), model_of("none").eval()
    assert model.encoder.position.count(SHAPE) == 0
    plain.load_state_dict({key: x for key, x in model.state_dict().items() if ".position." not in key})
    ids, mask = batch()
    assert torch.equal(model(ids, mask), plain(ids, mask))


def test_a_step_of_training_goes_through_without_kernels() -> None:
    model = model_of("tisa", kernels=0).train()
    ids, mask = batch()
    model.loss(ids, ids, mask).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.AdamW(model.parameters(), fused=True).step()


def test_the_count_of_the_papers_table_2() -> None:
    shape = Shape(heads=12, head_dim=64, hidden=768, embedding=128, layers=12, max_positions=512)
    assert Tisa(shape, kernels=5).count(shape) == 2160


def test_initial_values_are_those_of_the_released_module() -> None:
    torch.manual_seed(0)
    scheme = Tisa(Shape(16, 4, 64, 64, 16, 8), kernels=16)
    for parameter, mean, std in ((scheme.amplitude, 0.1, 0.01), (scheme.sharpness, 0.1, 0.01), (scheme.centre, 0.0, 5.0)):
        assert parameter.mean().item() == pytest.approx(mean, abs=0.1 * std)
        assert parameter.std().item() == pytest.approx(std, rel=0.05)


@pytest.mark.parametrize("kernels", [-1, 1.5, "x", True])
def test_a_wrong_number_is_one_line(kernels: object) -> None:
    with pytest.raises(RelposError) as error:
        Tisa(SHAPE, kernels=kernels)  # type: ignore[arg-type]
    assert str(error.value) == f"kernels={shown(kernels)}: a whole number of 0 or more is expected"
