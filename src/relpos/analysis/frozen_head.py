"""A masked-language-modelling head for an encoder that was published without one."""

from __future__ import annotations

import torch
from torch import nn

from relpos.analysis.texts import Texts
from relpos.model.encoder import Encoder
from relpos.model.heads import IGNORED, MaskedLM


def train_head(encoder: Encoder, texts: Texts, epochs: int = 4, rows: int = 128, lr: float = 2e-3) -> MaskedLM:
    """The encoder with a new head that is trained to predict the masked words from its outputs; the encoder is not trained.

    The outputs are computed once. The head is BERT's, tied to the word table; its bias begins as the logarithm of the words'
    frequencies (plus 0.1, so that words that are not in the texts have one), its linear map as the identity where the widths are
    equal. Words that are never to be predicted are left out of the softmax while the head is trained.
    """
    model = MaskedLM(encoder).requires_grad_(False)
    # Once: the encoder does not change while its head is trained.
    features, targets = [], []
    encoder.eval()
    with torch.no_grad():
        for ids, labels in texts.batches(seed=1):
            chosen = (labels != IGNORED).flatten().nonzero().squeeze(1)
            features.append(encoder(ids, at=chosen))
            targets.append(labels.flatten()[chosen])
    x, y = torch.cat(features), torch.cat(targets)
    with torch.no_grad():
        words = model.table
        counts = torch.bincount(texts.ids.flatten(), minlength=len(words)).float() + 0.1
        model.head.bias.copy_((counts / counts.sum()).log())
        if model.head.narrow.in_features == model.head.narrow.out_features:
            # Training then begins at the outputs themselves, not at random mixtures of them.
            nn.init.eye_(model.head.narrow.weight)
            if model.head.narrow.bias is not None:
                nn.init.zeros_(model.head.narrow.bias)
    model.head.requires_grad_(True)
    if model.head.table is not None:
        model.head.table.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=lr)
    steps = epochs * -(-len(x) // rows)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    generator = torch.Generator().manual_seed(0)
    # A softmax over the words to be predicted is many times smaller, and the others would only be pushed down.
    seen, y = torch.unique(y, return_inverse=True)
    table = model.table[seen].detach()
    for _ in range(epochs):
        for part in torch.randperm(len(x), generator=generator).split(rows):
            logits = nn.functional.linear(model.head.transform(x[part]), table, model.head.bias[seen])
            loss = nn.functional.cross_entropy(logits, y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.requires_grad_(False).eval()
