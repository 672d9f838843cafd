"""Lookahead: its equations, and that nothing is begun without the library."""

import sys

import pytest
import torch

from hf_localattn.tasks import TextClassification, prepare_run
from hf_localattn.training.arguments import ModelArguments
from hf_localattn.training.optimizers import with_lookahead

pytest.importorskip("pytorch_optimizer", reason="the extra `lookahead`")


@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_slow_weights_follow_every_few_steps(alpha):
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = with_lookahead(torch.optim.SGD([weight], lr=0.1), 3, alpha)
    slow = fast = weight.detach().clone()
    for step in range(1, 8):
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        fast = fast - 0.1 * 2 * fast
        if step % 3 == 0:
            slow = fast = slow + alpha * (fast - slow)
        torch.testing.assert_close(weight.detach(), fast, rtol=1e-12, atol=0)


def test_without_the_library_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    task, out = TextClassification, str(tmp_path / "out")
    arguments = task.TrainingArguments(out, do_train=True, use_cpu=True, report_to="none", lookahead_steps=5)
    model = ModelArguments(family="cool", backbone="tiny")
    with pytest.raises(ImportError, match=r"hf_localattn\[lookahead\]"):
        prepare_run(task, model, task.DataArguments(train_file="none.csv"), arguments)
    assert not (tmp_path / "out").exists()
