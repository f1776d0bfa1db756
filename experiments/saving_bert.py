"""transformers' BertForMaskedLM with and without a start at the neighbours: python
experiments/saving_bert.py START UPDATES SEED...

START is neighbours or normal. The text, batches and masks are those of plateau_saving (documents of
128 tokens, 16 in an update), the sizes those of its network; initial weights and AdamW are those of
transformers and torch. `begin_at_the_neighbours` has the three lines that a training script such as
run_mlm.py needs behind its `model = …`. Adds to results/plateau_saving/bert.csv the mean training
loss of every 25 updates.
"""

import sys
from pathlib import Path

import pytorch_lightning as pl
import torch
from transformers import BertConfig, BertForMaskedLM

import relpos
from relpos.model.position.absolute import neighbours

RESULTS = Path(__file__).parent / "results" / "plateau_saving" / "bert.csv"
TEXT = ["data=toy", "packing=document", "length=128", "batch=16"]
RATE, WARMUP, EVERY = 2.5e-3, 100, 25


def begin_at_the_neighbours(model: BertForMaskedLM) -> None:
    table, first = model.bert.embeddings.position_embeddings.weight, model.bert.encoder.layer[0]
    maps, width = first.attention.self, first.attention.self.attention_head_size
    neighbours(table, maps.query.weight, maps.key.weight, width, std=0.1)


class Training(pl.LightningModule):
    """One training, and its mean losses by update."""

    def __init__(self, model: BertForMaskedLM) -> None:
        super().__init__()
        self.model, self.sums, self.losses = model, [], {}

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.model.parameters(), RATE, weight_decay=0.01)
        rising = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / WARMUP)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": rising, "interval": "step"},
        }

    def transfer_batch_to_device(self, batch, device, dataloader_idx: int):
        return batch

    def training_step(self, step, _index: int) -> torch.Tensor:
        parts = step.microbatches
        loss = sum(
            self.model(part.input_ids, part.attention_mask.long(), labels=part.labels).loss
            * part.chosen
            for part in parts
        )
        loss = loss / step.chosen
        self.sums.append(loss.item())
        if len(self.sums) == EVERY:
            self.losses[self.global_step + 1] = sum(self.sums) / EVERY
            self.sums = []
        return loss


def train(seed: int, updates: int, start: str) -> dict[int, float]:
    """Mean training loss of the updates before, by update."""
    cfg = relpos.compose(
        "pretrain", [*TEXT, "size=tiny", f"seed={seed}", f"steps={updates}", "speed.threads=1"]
    )
    module, data = relpos.lightning(cfg)
    torch.manual_seed(seed)
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "max_position_embeddings": 256,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    vocabulary = module.model.encoder.embedding.words.num_embeddings
    model = BertForMaskedLM(BertConfig(vocab_size=vocabulary, **sizes))
    if start == "neighbours":
        begin_at_the_neighbours(model)
    training = Training(model)
    trainer = pl.Trainer(
        max_steps=updates,
        gradient_clip_val=1.0,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(training, datamodule=data)
    return training.losses


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    new = not RESULTS.exists()
    with RESULTS.open("a", encoding="utf-8") as file:
        if new:
            file.write("start,seed,update,loss\n")
        start, updates, *seeds = sys.argv[1:]
        for seed in map(int, seeds):
            for update, loss in train(seed, int(updates), start).items():
                file.write(f"{start},{seed},{update},{loss:.3f}\n")
            file.flush()


if __name__ == "__main__":
    main()
