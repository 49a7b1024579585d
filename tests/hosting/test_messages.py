"""The border: what is sent is what arrives, with the descriptor that belongs to it."""

from __future__ import annotations

import os

import pytest

from service.hosting.channel import LARGEST, Receiver, channel, packets, post
from service.hosting.messages import Done, Failed, Load, Ping, Ran, Run, Start, Unload, decode, encode

TENSOR = ("x", "FP32", (2, 0, 3), 128)
MESSAGES = [
    Start(0, "cuda:0", "{}"),
    Load(1, "engine#0", "onnxruntime", "/somewhere/plan", ("y",), ((("x", "FP32", (2,), ()),),)),
    Unload(2, "engine#0"),
    Run(3, "engine#0", (TENSOR,), ("y", "z"), 0, 4096, 64),
    Ping(4, 1.5),
    Done(5, 2**40),
    Ran(6, (TENSOR, TENSOR), 2**33),
    Failed(7, "Conflict", "nö"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_its_wire_form(message):
    assert decode(encode([message])) == [message]


def test_messages_share_packets_as_far_as_they_fit():
    assert [decode(packet) for packet in packets(MESSAGES)] == [MESSAGES]
    large = [Failed(call, "Conflict", "x" * (LARGEST // 3)) for call in range(8)]
    made = list(packets(large))
    assert [message for packet in made for message in decode(packet)] == large
    assert 1 < len(made) < 8 and max(map(len, made)) <= LARGEST


def test_a_message_larger_than_a_packet_is_refused():
    near, far = channel()
    with near, far:
        (packet,) = packets([Failed(1, "Conflict", "x" * LARGEST)])
        with pytest.raises(ValueError, match="too many tensors"):
            post(near, packet)


def test_descriptors_arrive_with_their_own_message():
    near, far = channel()
    reader, writer = os.pipe()
    with near, far:
        post(near, encode(MESSAGES[:3]))
        post(near, encode([MESSAGES[3]]), writer)
        os.close(writer)
        receiver = Receiver(far)
        assert receiver.receive() == (MESSAGES[:3], None)
        (message,), descriptor = receiver.receive()
        assert message == MESSAGES[3]
        os.write(descriptor, b"through")
        os.close(descriptor)
        assert os.read(reader, 10) == b"through"
        os.close(reader)
        near.close()
        assert receiver.receive() is None
