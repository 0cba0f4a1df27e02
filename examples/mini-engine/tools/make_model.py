#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the model folder: a transformer with random weights and a head that knows a few answers.

Everything below the head is random with a fixed seed; the head is trained (a perceptron with a
margin) until greedy decoding says ANSWERS by heart. Any other prompt yields babble. Plain Python,
some ten seconds. Usage: make_model.py FOLDER
"""

import base64
import json
import math
import random
import re
import struct
import sys
from operator import mul
from pathlib import Path

SEED = 20260801
HIDDEN, HEADS, LAYERS, FFN = 64, 4, 2, 128
EPSILON = 1e-6
MARGIN, MAX_EPOCHS = 4.0, 2000
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = "<|im_end|>"
TEMPLATE = "<|im_start|>{role}\n%s<|im_end|>\n"
GENERATION = "<|im_start|>assistant\n"
ANSWERS = {
    "What does this engine do?": "It multiplies small matrices on real threads, so that a debugger has "
    "something real to stop at.",
    "Hello": "Hello from a small engine with the shape of a big one.",
    "Who are you?": "A tiny model that knows five answers by heart; everything else is babble.",
    "你好": "你好，手机。",
    "Tell me a joke.": "A null pointer walked into a bar, and nobody could say where it pointed.",
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = make_vocabulary()
    weights = make_weights(random.Random(SEED), len(vocabulary))
    samples = []
    # Each answer alone and as the second turn of a chat.
    for history in ["", *(turn("user", q) + turn("assistant", a) for q, a in ANSWERS.items())]:
        for question, answer in ANSWERS.items():
            prompt = encode(history + turn("user", question) + GENERATION, vocabulary)
            wanted = encode(answer + END, vocabulary)
            features = Model(weights).features(prompt + wanted[:-1])
            samples += list(zip(features[len(prompt) - 1 :], wanted))
    weights["lm_head"] = quantize(train_head(samples, len(vocabulary)))
    write_model(folder, vocabulary, weights)


def turn(role, text):
    return TEMPLATE.format(role=role).replace("%s", text)


def make_vocabulary():
    words = {piece for text in [*ANSWERS, *ANSWERS.values()] for piece in re.findall(r" ?[A-Za-z]+", text)}
    words |= {"user", "assistant", "system"}
    return (
        [s.encode() for s in SPECIALS]
        + [bytes([b]) for b in range(256)]
        + sorted(w.encode() for w in words if len(w) > 1)
    )


def encode(text, vocabulary):
    """Special tokens first, then the longest match: what Tokenizer::encode does."""
    ids, data, at = {token: i for i, token in enumerate(vocabulary)}, text.encode(), 0
    specials = [s.encode() for s in SPECIALS]
    result = []
    while at < len(data):
        special = next((s for s in specials if data.startswith(s, at)), None)
        token = special or next(data[at : at + n] for n in range(32, 0, -1) if data[at : at + n] in ids)
        result.append(ids[token])
        at += len(token)
    return result


def make_weights(rng, vocabulary):
    def matrix(rows, cols, deviation):
        return quantize([[rng.gauss(0, deviation) for _ in range(cols)] for _ in range(rows)])

    weights = {"embedding": matrix(vocabulary, HIDDEN, 1.0), "norm": [1.0] * HIDDEN}
    for layer in range(LAYERS):
        name = f"layers.{layer}."
        weights[name + "attention_norm"] = weights[name + "ffn_norm"] = [1.0] * HIDDEN
        for projection, gain in (("q", 1.5), ("k", 1.5), ("v", 1.5), ("o", 1.5)):
            weights[name + projection] = matrix(HIDDEN, HIDDEN, gain / math.sqrt(HIDDEN))
        for projection in ("gate", "up"):
            weights[name + projection] = matrix(FFN, HIDDEN, 1.5 / math.sqrt(HIDDEN))
        weights[name + "down"] = matrix(HIDDEN, FFN, 1.5 / math.sqrt(FFN))
    return weights


def quantize(matrix):
    """Rows of (scale, int8 values)."""
    rows = []
    for row in matrix:
        largest = max(map(abs, row))
        scale = struct.unpack("<f", struct.pack("<f", largest / 127 if largest else 1.0))[0]
        rows.append((scale, [max(-127, min(127, round(value / scale))) for value in row]))
    return rows


class Model:
    """The engine's forward pass in double precision; enough to train a head with a margin."""

    def __init__(self, weights):
        self.weights = weights
        self.keys = [[] for _ in range(LAYERS)]
        self.values = [[] for _ in range(LAYERS)]

    def features(self, ids):
        return [self.step(token) for token in ids]

    def step(self, token):
        scale, row = self.weights["embedding"][token]
        x = [scale * value for value in row]
        for layer in range(LAYERS):
            name = f"layers.{layer}."
            normed = self.norm(x, name + "attention_norm")
            q, k, v = (self.multiply(normed, name + p) for p in "qkv")
            self.keys[layer].append(k)
            self.values[layer].append(v)
            attended = self.attend(q, self.keys[layer], self.values[layer])
            x = add(x, self.multiply(attended, name + "o"))
            normed = self.norm(x, name + "ffn_norm")
            gate, up = (self.multiply(normed, name + p) for p in ("gate", "up"))
            x = add(x, self.multiply([g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)], name + "down"))
        return self.norm(x, "norm")

    def norm(self, x, name):
        factor = 1 / math.sqrt(sum(map(mul, x, x)) / len(x) + EPSILON)
        return [value * factor * weight for value, weight in zip(x, self.weights[name])]

    def multiply(self, x, name):
        scale = max(map(abs, x)) / 127 or 1.0
        x = [int(v / scale + (0.5 if v >= 0 else -0.5)) for v in x]
        return [scale * row_scale * sum(map(mul, x, row)) for row_scale, row in self.weights[name]]

    @staticmethod
    def attend(q, keys, values):
        size, output = HIDDEN // HEADS, []
        for head in range(HEADS):
            part, slope, last = (
                slice(head * size, (head + 1) * size),
                1 / (1 << (2 * head + 1)),
                len(keys) - 1,
            )
            scores = [
                sum(map(mul, q[part], key[part])) / math.sqrt(size) - slope * (last - i)
                for i, key in enumerate(keys)
            ]
            largest = max(scores)
            chances = [math.exp(s - largest) for s in scores]
            total = sum(chances)
            output += [
                sum(c / total * value[i] for c, value in zip(chances, values))
                for i in range(head * size, (head + 1) * size)
            ]
        return output


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def train_head(samples, vocabulary):
    """Rows that score the wanted token MARGIN higher than every other token of ANSWERS, and above 0."""
    head = {token: [0.0] * HIDDEN for _, token in samples}
    head[0] = [0.0] * HIDDEN  # stands for all tokens that are never wanted; stays zero
    for epoch in range(MAX_EPOCHS):
        mistakes = 0
        for feature, wanted in samples:
            scores = {token: sum(map(mul, row, feature)) for token, row in head.items()}
            rival = max((t for t in scores if t != wanted), key=scores.get)
            if scores[wanted] - scores[rival] < MARGIN:
                mistakes += 1
                head[wanted] = [w + 0.02 * f for w, f in zip(head[wanted], feature)]
                if rival != 0:
                    head[rival] = [w - 0.02 * f for w, f in zip(head[rival], feature)]
        if mistakes == 0:
            print(f"head trained: {len(samples)} tokens, {epoch} epochs")
            return [head.get(token, [0.0] * HIDDEN) for token in range(vocabulary)]
    sys.exit(f"the head still makes {mistakes} mistakes of {len(samples)}: change SEED or ANSWERS")


def write_model(folder, vocabulary, weights):
    graph, data = (
        ["mini-mnn 1", "# The graph, run from top to bottom; weights are in llm.mnn.weight.", ""],
        b"",
    )
    for name, weight in weights.items():
        if isinstance(weight[0], float):
            graph.append(f"weight {name} float 1 {len(weight)} {len(data)}")
            data += struct.pack(f"<{len(weight)}f", *weight)
        else:
            rows, cols = len(weight), len(weight[0][1])
            graph.append(f"weight {name} int8 {rows} {cols} {len(data)}")
            data += struct.pack(f"<{rows}f", *(scale for scale, _ in weight))
            data += b"".join(struct.pack(f"{cols}b", *row) for _, row in weight)
    graph += ["", "input input_ids", "op Embedding input_ids -> hidden_0 weight=embedding"]
    for layer in range(LAYERS):
        name, x = f"layers.{layer}.", f"hidden_{layer}"
        graph.append(f"op RMSNorm {x} -> {name}n1 weight={name}attention_norm eps={EPSILON}")
        graph += [f"op MatMul {name}n1 -> {name}{p}_out weight={name}{p}" for p in "qkv"]
        graph.append(f"op Attention {name}q_out {name}k_out {name}v_out -> {name}attended heads={HEADS}")
        graph.append(f"op MatMul {name}attended -> {name}o_out weight={name}o")
        graph.append(f"op BinaryAdd {x} {name}o_out -> {name}middle")
        graph.append(f"op RMSNorm {name}middle -> {name}n2 weight={name}ffn_norm eps={EPSILON}")
        graph += [f"op MatMul {name}n2 -> {name}{p}_out weight={name}{p}" for p in ("gate", "up")]
        graph.append(f"op SiluMul {name}gate_out {name}up_out -> {name}gated")
        graph.append(f"op MatMul {name}gated -> {name}down_out weight={name}down")
        graph.append(f"op BinaryAdd {name}middle {name}down_out -> hidden_{layer + 1}")
    graph.append(f"op RMSNorm hidden_{LAYERS} -> final weight=norm eps={EPSILON}")
    graph += ["op MatMul final -> logits weight=lm_head rows=last", "output logits", ""]
    (folder / "llm.mnn").write_text("\n".join(graph))
    (folder / "llm.mnn.weight").write_bytes(data)
    tokens = "\n".join(base64.b64encode(token).decode() for token in vocabulary)
    ids = " ".join(map(str, [*range(len(SPECIALS)), 0, 2]))
    (folder / "tokenizer.txt").write_text(f"430 1\n{len(SPECIALS)} 2 0\n{ids}\n{len(vocabulary)}\n{tokens}\n")
    config = {
        "llm_model": "llm.mnn",
        "llm_weight": "llm.mnn.weight",
        "backend_type": "cpu",
        "thread_num": 2,
        "precision": "low",
        "memory": "low",
        "sampler_type": "greedy",
        "tokenizer_file": "tokenizer.txt",
        "max_new_tokens": 32,
    }
    model = {
        "model_type": "mini",
        "hidden_size": HIDDEN,
        "layer_nums": LAYERS,
        "attention_type": "full",
        **{f"{role}_prompt_template": TEMPLATE.format(role=role) for role in ("system", "user", "assistant")},
        "generation_prompt": GENERATION,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=4) + "\n")
    (folder / "llm_config.json").write_text(json.dumps(model, indent=4) + "\n")


if __name__ == "__main__":
    main()
