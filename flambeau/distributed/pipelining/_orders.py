"""The orders in which ranks run forwards and backwards of their stages. Used by `schedules`.

Messages are sent without waiting, so that an order works if no action waits for a later one of its own rank; `check_order` runs
it on paper. Zero bubble orders (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"; 2024, "Pipeline Parallelism with Controllable
Memory") are found by scheduling a list: a rank takes what can run, inputs' backward first as others wait for it, then forwards
as long as it may keep more microbatches, and fills its pauses with weights' backward. DualPipeV is that of DeepSeek's DualPipe
(2024) folded at the middle of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flambeau.distributed.pipelining._actions import Action, B, ComputationType, F, I, Order, W

__all__ = ["breadth_first", "check_order", "dual_pipe_v", "interleaved", "zero_bubble"]


def breadth_first(stages: Sequence[int], microbatches: int) -> list[Action | None]:
    """All microbatches through a stage before the next; backwards likewise."""
    forwards = [Action(stage, F, k) for stage in stages for k in range(microbatches)]
    backwards = [Action(stage, B, k) for stage in reversed(stages) for k in reversed(range(microbatches))]
    return [*forwards, *backwards]


def interleaved(rank: int, ranks: int, loops: int, microbatches: int, per_round: int) -> list[Action | None]:
    """1F1B with the stages rank, rank + ranks, ... of a rank, in rounds of microbatches (Narayanan et al. 2021)."""
    total = loops * microbatches
    ahead = min(total, (loops - 1) * per_round + 2 * (ranks - 1 - rank))

    def run(place: int, backward: bool) -> Action:
        turn, within = divmod(place, per_round)
        loop, local = divmod(turn, loops)
        local = loops - 1 - local if backward else local
        return Action(local * ranks + rank, B if backward else F, loop * per_round + within)

    result: list[Action | None] = [run(place, False) for place in range(ahead)]
    for place in range(total):
        if place + ahead < total:
            result.append(run(place + ahead, False))
        result.append(run(place, True))
    return result


# Zero bubble


class _Ranks:
    """The state of all ranks while a list is scheduled: what each may do next, and what it has done."""

    def __init__(self, stage_ranks: Sequence[int], ranks: int, microbatches: int, limits: Sequence[int]) -> None:
        self.ranks, self.microbatches, self.limits = stage_ranks, microbatches, limits
        self.own = [[s for s, r in enumerate(stage_ranks) if r == rank] for rank in range(ranks)]
        self.done = {kind: [0] * len(stage_ranks) for kind in (F, I, W)}  # each stage takes microbatches in order
        self.last = len(stage_ranks) - 1

    def left(self) -> bool:
        return any(count < self.microbatches for count in self.done[W])

    def kept(self, rank: int) -> int:
        """How many microbatches' activations a rank keeps, of all of its stages."""
        return sum(self.done[F][stage] - self.done[W][stage] for stage in self.own[rank])

    def choice(self, rank: int) -> Action | None:
        """What a rank does next."""
        forward, inputs, weights = self.done[F], self.done[I], self.done[W]
        for stage in reversed(self.own[rank]):
            follows = stage == self.last or inputs[stage + 1] > inputs[stage]
            if inputs[stage] < forward[stage] and follows:
                return Action(stage, I, inputs[stage])
        full = self.kept(rank) >= self.limits[rank]
        waiting = next((s for s in reversed(self.own[rank]) if weights[s] < inputs[s]), None)
        if waiting is not None and full:
            return Action(waiting, W, weights[waiting])
        for stage in reversed(self.own[rank]):
            there = stage == 0 or forward[stage - 1] > forward[stage]
            # What has entered goes on to the end: so some backward can always run.
            if forward[stage] < self.microbatches and there and (not full or stage != self.own[rank][0]):
                return Action(stage, F, forward[stage])
        return None if waiting is None else Action(waiting, W, weights[waiting])


def zero_bubble(stage_ranks: Sequence[int], ranks: int, microbatches: int, limits: Sequence[int]) -> Order:
    """All ranks' actions, I and W apart, where stages lie on `stage_ranks`, and no rank keeps more microbatches than `limits`."""
    state = _Ranks(stage_ranks, ranks, microbatches, limits)
    order: dict[int, list[Action | None]] = {rank: [] for rank in range(ranks)}
    while state.left():
        chosen = [state.choice(rank) for rank in range(ranks)]
        for rank, action in enumerate(chosen):
            order[rank].append(action)
            if action is not None:
                state.done[action.computation_type][action.stage_index] += 1
    return order


def dual_pipe_v(rank: int, ranks: int, microbatches: int) -> list[Action | None]:
    """The stages rank and 2 * ranks - 1 - rank: forwards of one beside backwards of the other. At least 2 * ranks batches."""
    stages = (rank, 2 * ranks - 1 - rank)
    counts = {(kind, stage): 0 for kind in (F, B) for stage in stages}
    result: list[Action | None] = []
    weights: list[Action] = []

    def next_of(kind: ComputationType, half: int) -> Action:
        stage = stages[half]
        key = (F if kind is F else B, stage)
        counts[key] += 1
        return Action(stage, kind, counts[key] - 1)

    def run(kind: ComputationType, half: int) -> None:
        action = next_of(kind, half)
        result.append(action)
        if kind is I:
            weights.append(action._replace(computation_type=W))

    def both(forward: int, backward: int) -> None:
        pair = next_of(F, forward), next_of(B, backward)
        result.append(Action(-1, ComputationType.OVERLAP_F_B, None, pair))

    def run_weights() -> None:
        result.append(weights.pop(0))

    behind = ranks - rank - 1
    for _ in range(2 * behind):
        run(F, 0)
    for _ in range(rank + 1):
        run(F, 0)
        run(F, 1)
    for _ in range(behind):
        run(I, 1)
        run_weights()
        run(F, 1)
    for k in range(microbatches - 2 * ranks + rank + 1):
        if k == 0 and rank == ranks - 1:
            run(F, 0)
            run(B, 1)
        else:
            both(0, 1)
        both(1, 0)
    for _ in range(behind):
        run(B, 1)
        both(1, 0)
    late = False  # in the second half of what is left weights' parts are put off
    for k in range(rank + 1):
        late = late or (k == (rank + 1) // 2 and rank % 2 == 1)
        run(I if late else B, 1)
        late = late or (k == (rank + 1) // 2 and rank % 2 == 0)
        run(I if late else B, 0)
    for _ in range(behind):
        run_weights()
        run(I, 0)
    while weights:
        run_weights()
    return result


# On paper


def _parts(action: Action | None) -> tuple[Action, ...]:
    return () if action is None else action.sub_actions if action.sub_actions is not None else (action,)


def check_order(order: Order, stage_rank: Callable[[int], int], stages: int, microbatches: int, trains: bool) -> None:
    """ValueError unless an order has each forward and backward of each stage once, on its rank, and no rank waits for ever."""
    kinds = {F, I, W} if trains else {F}
    done: set[Action] = set()
    places = dict.fromkeys(order, 0)
    lists = {rank: [part for action in actions for part in _parts(action)] for rank, actions in order.items()}

    def needs(action: Action) -> list[Action]:
        stage, kind, microbatch, _ = action
        if kind is F:
            return [Action(stage - 1, F, microbatch)] if stage > 0 else []
        if kind is W:
            return [Action(stage, I, microbatch)]
        return [Action(stage, F, microbatch), *([Action(stage + 1, I, microbatch)] if stage + 1 < stages else [])]

    moved = True
    while moved:
        moved = False
        for rank, actions in lists.items():
            while places[rank] < len(actions) and all(each in done for each in needs(actions[places[rank]])):
                action = actions[places[rank]]
                made = [action._replace(computation_type=kind) for kind in (I, W)] if action[1] is B else [action]
                if any(each in done for each in made) or stage_rank(action.stage_index) != rank:
                    raise ValueError(f"rank {rank} has {action}, which is done before or on another rank")
                done.update(made)
                places[rank], moved = places[rank] + 1, True
    waiting = {rank: str(actions[places[rank]]) for rank, actions in lists.items() if places[rank] < len(actions)}
    if waiting:
        raise ValueError(f"ranks wait for ever, each at: {waiting}")
    wanted = {Action(s, kind, k) for s in range(stages) for kind in kinds for k in range(microbatches)}
    if missing := wanted - done:
        raise ValueError(f"the order lacks {sorted(map(str, missing))[:5]}")
