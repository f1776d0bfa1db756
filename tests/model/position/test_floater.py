"""FLOATER: the equation it solves, and when it solves it."""

import pytest
import torch
from torch import Tensor

import reference_absolute
from relpos.model.position import Floater
from schemes import SHAPE


def floater(refresh: int = 3) -> Floater:
    torch.manual_seed(0)
    scheme = Floater(SHAPE, refresh).double().train()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return scheme


def vectors(scheme: Floater, n: int = 9) -> Tensor:
    """(layers, 3, H, n, head_dim)"""
    return torch.stack(scheme.prepare(n))


def move(scheme: Floater) -> None:
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter += 0.1


@pytest.mark.full
def test_the_trajectories_are_those_of_a_much_finer_solver():
    scheme, n = floater(), 12
    trajectories = vectors(scheme, n)
    assert (trajectories[..., 0, :] - trajectories[..., -1, :]).abs().max() > 0.1
    for layer in range(2):
        for part in range(3):
            fine = torch.stack(reference_absolute.trajectory(scheme, layer, part, n, steps=80))
            torch.testing.assert_close(
                trajectories[layer, part].transpose(0, 1).flatten(1), fine, atol=1e-6, rtol=0
            )


def test_a_longer_sequence_begins_with_the_same_vectors():
    scheme = floater()
    assert torch.equal(vectors(scheme, 40)[..., :7, :], vectors(scheme, 7))


def test_an_update_that_solves_has_gradients_in_every_micro_batch():
    scheme = floater()
    scheme.begin_step(3)
    gradients = []
    for _ in range(2):
        scheme.zero_grad()
        vectors(scheme).square().sum().backward()
        gradients.append([parameter.grad for parameter in scheme.parameters()])
    assert all(torch.equal(a, b) and a.abs().max() > 0 for a, b in zip(*gradients, strict=True))  # type: ignore[arg-type, union-attr]


def test_between_solutions_the_vectors_stay_and_the_gradients_are_zero():
    scheme = floater()
    scheme.begin_step(0)
    solved = vectors(scheme)
    move(scheme)
    for step in (1, 2):
        scheme.begin_step(step)
        assert torch.equal(vectors(scheme), solved)
    vectors(scheme).square().sum().backward()
    assert all(
        parameter.grad is not None and not parameter.grad.any() for parameter in scheme.parameters()
    )
    scheme.begin_step(3)
    assert (vectors(scheme) - solved).abs().max() > 1e-3


def test_evaluation_sees_the_parameters_of_the_moment():
    scheme = floater()
    scheme.begin_step(0)
    scheme.begin_step(1)
    scheme.eval()
    with torch.no_grad():
        before = vectors(scheme)
        move(scheme)
        after = vectors(scheme)
    assert torch.equal(after, vectors(scheme).detach())
    assert (after - before).abs().max() > 1e-3


def test_evaluation_solves_once_for_all_batches(monkeypatch):
    scheme, lengths = floater().eval(), []
    solve = Floater.solve
    monkeypatch.setattr(Floater, "solve", lambda self, n: (lengths.append(n), solve(self, n))[1])
    with torch.no_grad():
        for n in (5, 9, 16, 7, 20, 18):
            vectors(scheme, n)
    assert lengths == [16, 20]


def test_the_cache_survives_a_checkpoint():
    scheme, other = floater(), Floater(SHAPE, 3).double()
    scheme.begin_step(0)
    move(scheme)
    other.load_state_dict(scheme.state_dict())
    for solver in (scheme, other):
        solver.begin_step(1)
    assert torch.equal(vectors(other), vectors(scheme))


def test_refresh_1_solves_in_every_update_and_keeps_nothing():
    scheme = floater(refresh=1)
    scheme.begin_step(7)
    before = vectors(scheme)
    move(scheme)
    assert (vectors(scheme) - before).abs().max() > 1e-3
    assert "cache" not in scheme.state_dict()


def test_sequences_longer_than_the_cache_are_solved():
    scheme = floater()
    scheme.begin_step(0)
    scheme.begin_step(1)
    assert vectors(scheme, 17).requires_grad
    assert vectors(scheme, 17).shape[3] == 17


def test_half_precision_does_not_reach_the_solver():
    scheme = floater().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = vectors(scheme)
    assert torch.equal(inside, vectors(scheme))
