"""A recurrent encoder–decoder as the papers write it, one number after the other: slow, float64, no modules.

Bahdanau et al. 2014 (section 3, appendix A) and Luong et al. 2015 (section 3, equations 5, 7 to 10). Reads
nothing of a model but its weights by their names.
"""

import math

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def next_state(body, w_in, w_state, b_in, b_state, x, h, c):
    """(h, c) after x; gates in the order of the weights' rows."""
    a, b = w_in @ x + b_in, w_state @ h + b_state
    d = len(h)
    if body == "rnn":
        return np.tanh(a + b), c
    if body == "gru":
        r, z = sigmoid(a[:d] + b[:d]), sigmoid(a[d : 2 * d] + b[d : 2 * d])
        n = np.tanh(a[2 * d :] + r * b[2 * d :])
        return (1 - z) * n + z * h, c
    i, f, g, o = (a + b).reshape(4, d)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


class SlowRecurrent:
    def __init__(self, module):
        self.w = {name: t.detach().double().numpy() for name, t in module.state_dict().items()}
        self.config = module.config

    def run(self, source, target, gates=None, fixed=None):
        """Logits [n_target, vocab] and weights [n_heads, n_target, n_source].

        `gates` multiply what heads give, `fixed` {head: vector} stands in the place of it.
        """
        self.fixed, self.outs = fixed or {}, []
        config, d = self.config, self.config.d_model
        memory = self.encode(source)
        ends = np.concatenate((memory[-1][: d // 2], memory[0][d // 2 :]))
        n_layers = config.decoder_layers
        first = np.tanh(self.w["bridge.weight"] @ ends + self.w["bridge.bias"]).reshape(-1, n_layers, d)
        h = [first[0, layer] for layer in range(n_layers)]
        c = [first[1, layer] if len(first) > 1 else np.zeros(d) for layer in range(n_layers)]
        logits, maps = [], []
        for token in target:
            x = self.w["tokens.weight"][token]
            if config.feeds_context:
                context, weights = self.attend(h[-1], memory, gates)
                h, c = self.step(np.concatenate((x, context)), h, c)
                read = np.concatenate((h[-1], x))
            else:
                h, c = self.step(x, h, c)
                context, weights = self.attend(h[-1], memory, gates)
                read = h[-1]
            hidden = np.tanh(context + self.w["readout.weight"] @ read)
            logits.append(self.w.get("head.weight", self.w["tokens.weight"]) @ hidden)
            maps.append(weights)
        return np.array(logits), np.array(maps).transpose(1, 0, 2)

    def encode(self, ids):
        inputs = [self.w["tokens.weight"][id] for id in ids]
        for layer in range(self.config.encoder_layers):
            ways = []
            for end, order in (("", range(len(ids))), ("_reverse", range(len(ids) - 1, -1, -1))):
                names = [
                    f"encoder.{n}_l{layer}{end}" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                ]
                h = c = np.zeros(self.config.d_model // 2)
                states = {}
                for t in order:
                    h, c = next_state(self.config.body, *(self.w[n] for n in names), inputs[t], h, c)
                    states[t] = h
                ways.append(states)
            inputs = [np.concatenate((ways[0][t], ways[1][t])) for t in range(len(ids))]
        return inputs

    def step(self, x, h, c):
        after_h, after_c = [], []
        for layer in range(self.config.decoder_layers):
            kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            names = [f"decoder.{n}_l{layer}" for n in kinds]
            if self.config.feeds_context:
                names = [f"decoder.{layer}.{n}" for n in kinds]
            x, cell = next_state(self.config.body, *(self.w[n] for n in names), x, h[layer], c[layer])
            after_h.append(x)
            after_c.append(cell)
        return after_h, after_c

    def attend(self, state, memory, gates=None):
        """The context of all heads, projected, and their weights [n_heads, n_source]."""
        config, w = self.config, self.w
        d_head, n_heads = config.head_width, config.n_heads
        q = (w["cross.query.weight"] @ state + w["cross.query.bias"]).reshape(n_heads, d_head)
        kv = [(w["cross.kv.weight"] @ m + w["cross.kv.bias"]).reshape(-1, d_head) for m in memory]
        n_kv = config.kv_heads
        joined, rows, outs = [], [], []
        for head in range(n_heads):
            group = head // (n_heads // n_kv)
            raw = np.array([self.score(head, q[head], one[group]) for one in kv])
            exponents = np.exp(raw - raw.max())
            if config.local_reach:
                inner = np.tanh(w["centre.matrix"][head] @ state)
                p = len(memory) * sigmoid(w["centre.vector"][head] @ inner)
                sigma = config.local_reach / 2
                for j in range(len(memory)):
                    near = abs(j - p) <= config.local_reach
                    exponents[j] *= math.exp(-((j - p) ** 2) / (2 * sigma**2)) if near else 0.0
            row = exponents / exponents.sum()
            gate = 1.0 if gates is None else gates[head]
            out = sum(a * one[n_kv + group] for a, one in zip(row, kv, strict=True))
            joined.append(gate * self.fixed.get(head, out))
            outs.append(out)
            rows.append(row)
        self.outs.append(outs)
        return w["cross.output.weight"] @ np.concatenate(joined) + w["cross.output.bias"], np.array(rows)

    def score(self, head, q, k):
        choice, d = self.config.score, self.config.head_width
        if choice == "general":
            return q @ self.w["cross.scoring.bilinear"][head] @ k
        if choice == "additive":
            return self.w["cross.scoring.vector"][head] @ np.tanh(q + k)
        if choice == "cosine":
            return q @ k / (np.linalg.norm(q) * np.linalg.norm(k) * self.config.temperature)
        if choice == "gaussian":
            return -((q - k) @ (q - k)) / (2 * math.sqrt(d))
        return q @ k / (math.sqrt(d) if choice == "scaled-dot" else 1.0)
