"""Embeddings of texts over HTTP. The program is an ordinary one; ``TETRIS_PATCH=1`` lets its workers share the weights.

TETRIS_PATCH=1 MODEL=sentence-transformers/all-MiniLM-L6-v2 uvicorn --workers 4 fastapi_app:app
TETRIS_PATCH=1 MODEL=... gunicorn -w 4 -k uvicorn_worker.UvicornWorker fastapi_app:app
"""

from __future__ import annotations

import os

import torch
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModel, AutoTokenizer

MODEL = os.environ["MODEL"]

torch.set_num_threads(1)  # each worker is one of many

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModel.from_pretrained(MODEL).eval()
app = FastAPI()


class Texts(BaseModel):
    """Texts to embed."""

    texts: list[str]


class Embeddings(BaseModel):
    """The embeddings, in the order of the texts, and the process that computed them."""

    pid: int
    embeddings: list[list[float]]


@app.post("/embed")
def embed(request: Texts) -> Embeddings:
    """Return the mean of each text's token embeddings."""
    inputs = tokenizer(request.texts, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    return Embeddings(pid=os.getpid(), embeddings=mean.tolist())
