"""Networks that write sequences: layers from streams of features, and a decoder on them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from bayes_asr.nn.decoder import AttentionDecoder
from bayes_asr.nn.frames import DecoderTargets, PackedFrames
from bayes_asr.nn.layer import Layer
from bayes_asr.nn.network import AcousticModel, Streams


class EncoderDecoder(AcousticModel):
    """A network whose only head is an `AttentionDecoder` on the frames that a layer computes.

    streams, layers, head_reads: as of `AcousticModel`; heads: how many labels there are, by the
    name of what is written; decoder: options of `AttentionDecoder`.
    """

    writes_sequences: ClassVar = True

    def __init__(
        self,
        streams: Mapping[str, int],
        layers: Sequence[Mapping[str, Any]],
        heads: Mapping[str, int],
        decoder: Mapping[str, Any],
        head_reads: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(streams, layers, {})
        ((name, size),) = heads.items()
        # The layers were built without heads: the decoder takes the place of the only one.
        self.outputs = (name,)
        self.head_layers = [(head_reads or {}).get(name, self.names[-1])]
        layer = cast(Layer, self.layers[self.names.index(self.top)])
        number = len(self.layers)
        self.decoder = AttentionDecoder(layer.outputs, layer.directions, number, size, **decoder)
        self.heads = nn.ModuleList([self.decoder])
        self.architecture |= {
            "heads": dict(heads),
            "decoder": dict(decoder),
            **({"head_reads": dict(head_reads)} if head_reads else {}),
        }

    def forward(
        self,
        streams: Streams,
        frames: PackedFrames,
        keys_B: Tensor | None = None,
        targets: DecoderTargets | None = None,
    ) -> dict[str, Tensor]:
        """Return the logits at each of the labels `targets`, by the name of the head [N, P].

        keys_B: as of `AcousticModel`.
        """
        if targets is None:
            raise ValueError("a decoder is told the right labels, or searches for them")
        encoded = self.hidden(streams, frames, keys_B)
        (name,) = self.outputs
        # Frozen, it computes as in evaluation.
        keys = None if name in self._frozen else keys_B
        # The decoder computes in the type of its weights: autocast would round its states.
        with torch.autocast(encoded.device.type, enabled=False):
            x = encoded.to(self.decoder.O.weight.dtype)
            return {name: self.decoder(x, self.output_frames(frames), targets, keys)}

    def hidden(
        self, streams: Streams, frames: PackedFrames, keys_B: Tensor | None = None
    ) -> Tensor:
        """Return the vectors that the decoder reads, at `output_frames` [M, H]."""
        return self._compute([self.top], streams, frames, keys_B)[self.top]

    def output_frames(self, frames: PackedFrames) -> PackedFrames:
        """The frames that the decoder attends to."""
        return frames.every(self.strides[self.top])
