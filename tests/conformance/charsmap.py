"""Maps of characters as SentencePiece compiles them (precompiled_charsmap): the size of a trie as a 32-bit integer, the
trie as a double array of darts-clone's units, and the texts that its values point at, each ended by a zero byte."""

import struct

FREE = 0xFFFFFFFF  # a unit that no byte leads to: its label is none


class Units:
    def __init__(self):
        self.unit, self.free, self.bases = [0], 1, set()

    def place(self, labels):
        """A base whose units for all labels are free."""
        base = self.free
        while any(self.taken(base ^ label) for label in labels) or base in self.bases:
            base += 1
        self.bases.add(base)
        return base

    def taken(self, at):
        return at < len(self.unit) and self.unit[at] != FREE

    def put(self, at, unit):
        self.unit += [FREE] * (at + 1 - len(self.unit))
        self.unit[at] = unit
        while self.taken(self.free) or self.free in self.bases:
            self.free += 1


def trie(entries):
    """Keys are bytes without zeros, values integers below 2^31."""
    units, entries = Units(), sorted(entries.items())

    def node(at, depth, group, label):
        labels = sorted({key[depth] if len(key) > depth else 0 for key, _ in group})
        base = units.place(labels)
        offset, leaf = at ^ base, int(labels[0] == 0)
        assert offset < 1 << 21
        units.unit[at] = label | leaf << 8 | offset << 10
        for c in labels:
            units.put(base ^ c, c if c else 1 << 31 | group[0][1])
        for c in labels:
            if c:
                node(base ^ c, depth + 1, [e for e in group if len(e[0]) > depth and e[0][depth] == c], c)

    if entries:
        node(0, 0, entries, 0)
    return units.unit


def charsmap(table):
    """table: text or bytes -> text."""
    texts, at, values = b"", {}, {}
    for key, text in table.items():
        if text not in at:
            at[text] = len(texts)
            texts += text.encode() + b"\0"
        values[key if isinstance(key, bytes) else key.encode()] = at[text]
    units = trie(values)
    units += [FREE] * (-len(units) % 256)
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts


def fields(message):
    """Number and value of each field of a protobuf message, lengths and varints only."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        size = {0: None, 1: 8, 2: None, 5: 4}[key & 7]
        value = varint() if size is None else size
        if key & 7:
            value, at = message[at : at + value], at + value
        yield key >> 3, value


def published(rule):
    """One of the maps that SentencePiece brings along (nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf), out of a model trained
    with it: sentencepiece_model.proto, normalizer_spec (3), precompiled_charsmap (2)."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["hello world, this is a text"] * 9),
        model_writer=model,
        vocab_size=24,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    return dict(fields(dict(fields(model.getvalue()))[3]))[2]
