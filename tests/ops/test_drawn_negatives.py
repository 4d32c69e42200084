"""Negatives by lot: as often as the softmax says, never those that are excluded, and whatever the logits are."""

from __future__ import annotations

import torch

from equipoise.ops.hard_negatives import draw_negatives


def test_columns_are_drawn_as_often_as_the_softmax_says():
    torch.manual_seed(0)
    logits, count = torch.tensor([2.0, -1.0, 0.5, 1.0]), 40_000
    excluded = torch.tensor([False, False, True, False]).expand(count, -1)
    drawn, some = draw_negatives(logits.expand(count, -1), excluded)
    found = torch.bincount(drawn, minlength=4) / count
    expected = torch.exp(logits) * ~excluded[0]
    torch.testing.assert_close(found, expected / expected.sum(), rtol=0, atol=0.01)
    assert found[2] == 0
    assert some.all()


def test_a_row_without_candidates_says_so():
    excluded = torch.tensor([[True, True], [True, False]])
    drawn, some = draw_negatives(torch.zeros(2, 2), excluded)
    assert some.tolist() == [False, True]
    assert drawn[1] == 1
    drawn, some = draw_negatives(torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))  # a batch of one
    assert (drawn.tolist(), some.tolist()) == ([0], [False])


def test_far_and_broken_logits_draw_something_that_is_allowed():
    excluded = torch.eye(3, dtype=torch.bool)
    for logits in (torch.full((3, 3), torch.nan), torch.full((3, 3), -torch.inf), torch.full((3, 3), 1e30)):
        for _ in range(20):
            drawn, some = draw_negatives(logits, excluded)
            assert (drawn != torch.arange(3)).all()
            assert some.all()
    far = torch.tensor([[0.0, 500.0, -500.0]])
    assert {int(draw_negatives(far, torch.zeros(1, 3, dtype=torch.bool))[0]) for _ in range(50)} == {1}
