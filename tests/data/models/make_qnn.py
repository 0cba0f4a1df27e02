"""Makes qnn/llm.mnn: a model whose layers are plugin ops, as compilefornpu of MNN writes them.

Written with Google's own FlatBuffers builder (pip install flatbuffers), so that devkit's reader is
held against another program's output. Fields by schema/default/MNN.fbs.
Run by hand: python make_qnn.py FOLDER [OPS]   (qnn: two, qnn-40: forty)
"""

import sys
from pathlib import Path

import flatbuffers

PLUGIN_OP, PLUGIN_PARAMETER = 256, 30
SHAPES = {128: [128, 1, 64, 1, 1, 128, 128, 1, 128], 1: [1, 1, 64, 1, 1, 1, 1, 1, 1]}


def texts(builder, words):
    offsets = [builder.CreateString(word) for word in words]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def tables(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def integers(builder, values):
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependInt32(value)
    return builder.EndVector()


def attribute(builder, key, *, text=None, words=None, numbers=None):
    name = builder.CreateString(key)
    value = builder.CreateString(text) if text is not None else None
    listed = None
    if words is not None or numbers is not None:
        s = texts(builder, words) if words is not None else None
        i = integers(builder, numbers) if numbers is not None else None
        builder.StartObject(5)
        if s is not None:
            builder.PrependUOffsetTRelativeSlot(0, s, 0)
        if i is not None:
            builder.PrependUOffsetTRelativeSlot(1, i, 0)
        listed = builder.EndObject()
    builder.StartObject(9)
    if value is not None:
        builder.PrependUOffsetTRelativeSlot(0, value, 0)
    builder.PrependUOffsetTRelativeSlot(3, name, 0)
    if listed is not None:
        builder.PrependUOffsetTRelativeSlot(7, listed, 0)
    return builder.EndObject()


def plugin(builder, number):
    attributes = [
        attribute(builder, "allGraphName", words=[f"graphllm{number}", f"graphllm1_{number}"]),
        attribute(builder, "allInputShape", numbers=[n for shape in SHAPES.values() for n in shape]),
        attribute(builder, "path", text=f"qnn/graphllm{number}.bin"),
    ]
    listed = tables(builder, attributes)
    kind = builder.CreateString("QNN")
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, listed, 0)
    parameter = builder.EndObject()
    name = builder.CreateString(f"qnn/plugin/op{number}")
    builder.StartObject(8)
    builder.PrependByteSlot(1, PLUGIN_PARAMETER, 0)
    builder.PrependUOffsetTRelativeSlot(2, parameter, 0)
    builder.PrependUOffsetTRelativeSlot(3, name, 0)
    builder.PrependInt32Slot(5, PLUGIN_OP, 0)
    return builder.EndObject()


def main() -> None:
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    builder = flatbuffers.Builder(1024)
    ops = tables(builder, [plugin(builder, number) for number in range(count)])
    builder.StartObject(12)
    builder.PrependUOffsetTRelativeSlot(3, ops, 0)
    builder.Finish(builder.EndObject())
    Path(sys.argv[1]).mkdir(exist_ok=True)
    (Path(sys.argv[1]) / "llm.mnn").write_bytes(bytes(builder.Output()))


if __name__ == "__main__":
    main()
