"""Programs: the launches of one call, recorded as a value and replayed by one native call.

    result, replay = record(fn, *inputs)           # runs fn once, as ever; `result` is what it returned
    if isinstance(replay, Refusal): ...            # replay.reason: what would have been missed
    outputs = replay(*inputs)                      # runs the launches again, on tensors of the same layouts

recording.py listens (`Tape`), program.py is the value, passes.py and fusion.py make faster ones of it, arena.py lays its memory
out, native.py is the native replay, replay.py writes its tables and calls it, entry.py is `record`. Stands on codegen.runtime;
nothing above codegen is imported: tensors are read by their slots.

What a program knows: launches, in order, with memory as *buffers*, and nothing of Python. Whoever skips Python answers for it:
that the function would have taken the same way (guards), and what it does to Python objects (a `grad` that is rebound). What may
be relied on:

- A tape that would miss an effect on memory is refused (`Refusal`): values that Python read (`item`, `numpy`, a branch), memory
  that moved, random states that Python touched, a failed launch, memory that was read and is gone.
- Recording holds no tensor and no storage, so that reference counts are those of an eager run.
- A replay gives eager's bits: same kernels, same order, same number of threads, but for passes, which keep the bits.
  Versions of written memory move as in eager.
- A call whose conditions don't hold (other layouts, aliases, sizes, threads, memory freed or copied on write) raises `Unfit`, and
  nothing has happened; so does one in which a kernel finds bad data, after what it did was taken back: run the function, which
  raises the operator's error. (If there was too much to take back the error is raised here, in general words.)
- Memory that was there before is found by its storage (or by the inputs). A tensor that shows another storage since (`p.data =`)
  is not noticed: guard it, or hand it over as an input.
- Memory made in the call: what `fn` returned is fresh in each replay; what outlived the call elsewhere (a `grad`) is *kept*: a
  replay writes into the very memory that outlived, unless it is among the `also` of `record`, whose tensors are further outputs.
- Results have no graph and no base.
- `Tape.lift(number)`: that float becomes an input, given by `replay.run(inputs, numbers)`; `Tape.reading()`: values read in this
  block are the recorder's own matter (counters from which lifted numbers are computed), and not refused.
"""

from flambeau.codegen.programs.entry import record
from flambeau.codegen.programs.program import Program, Refusal, Unfit
from flambeau.codegen.programs.recording import Busy, Tape
from flambeau.codegen.programs.replay import Replay

__all__ = ["Busy", "Program", "Refusal", "Replay", "Tape", "Unfit", "record"]
