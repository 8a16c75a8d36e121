"""Simulated servers with planted truth: acceptance that wanders in time, load, gaps, chances.

A latent value z of each interval, standard normal, moves the chance at every position k alike:
chance_k = logistic(a_k + b z + load effect * running). z is a sum of components that forget
exponentially (Ornstein-Uhlenbeck processes) and of a white rest. Its a_k and b are solved so that
the shares and the standard deviation of the intervals' true acceptance are the planted ones.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal, special  # type: ignore[import-untyped]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

QUADRATURE_NODES = 64


class SimulationError(ValueError):
    """A server that cannot be simulated: what was found, what would be right."""


@dataclass(frozen=True)
class Decay:
    """A component of the latent value."""

    weight: float
    """Share of the variance."""
    time_s: float
    """Seconds after which 1/e is remembered."""


@dataclass(frozen=True)
class Load:
    """Requests arrive at random while the server is busy; their times are exponential."""

    requests_per_s: float
    request_s: float
    """Mean time that a request runs."""
    busy_s: float = np.inf
    """Mean length of the stretches in which requests arrive; infinite if never idle."""
    idle_s: float = 0.0
    """Mean length of the stretches between them."""


@dataclass(frozen=True)
class Steps:
    """Steps a second of one running request.

    `per_s` / (1 + `slowdown` (running - 1)), times a lognormal factor.
    """

    per_s: float
    slowdown: float = 0.0
    sd_log: float = 0.0
    """Of the factor, drawn for each interval."""
    correlation: float = 0.0
    """Of the logarithm of the factor with the latent value z."""


@dataclass(frozen=True)
class Server:
    """What is planted. Steps of all requests of an interval are pooled, as in a log line."""

    chances: tuple[float, ...]
    """Pooled chance of acceptance at position 1..K given acceptance at the one before."""
    between_sd: float
    """Standard deviation of the intervals' true acceptance (accepted over drafted)."""
    decays: tuple[Decay, ...]
    """The rest of the weight, up to 1, is white."""
    load: Load
    steps: Steps
    load_effect: float = 0.0
    """Change of the log odds of acceptance for each request that runs at the interval's end."""
    interval_s: float = 10.0


# A server like the published one. Its chances round to the printed ones and give every other
# quantity that is printed of all drafts. The spread between intervals is the printed one: 7.6
# points in all less 1.3 of sampling. The decays are those whose autocorrelations come nearest, by
# least squares, to the four that are printed (0.54, 0.32, 0.14, 0.02 at 10 s, 30 s, 5 min, 10 min):
# no two decays meet them all. Its load gives about as many intervals, drafts and intervals of 500
# drafts in 28.9 hours.
PUBLISHED_LIKE = Server(
    chances=(0.7987, 0.8094, 0.8252),
    between_sd=0.0749,
    decays=(Decay(0.60, 11.0), Decay(0.33, 300.0)),
    load=Load(requests_per_s=0.18, request_s=4.3, busy_s=80.0, idle_s=60.0),
    steps=Steps(per_s=118.0, slowdown=0.45, sd_log=0.16),
)


@dataclass(frozen=True)
class Calibrated:
    """The log odds a_k at z = 0 and the slope b that give what is planted."""

    log_odds: tuple[float, ...]
    slope: float


@dataclass(frozen=True)
class Traffic:
    """The intervals of a simulated log that hold a draft, by time: n of them, K positions."""

    end: FloatArray = field(repr=False)
    """Seconds from the start."""
    drafts: FloatArray = field(repr=False)
    accepted_at: FloatArray = field(repr=False)
    running: IntArray = field(repr=False)
    """Requests running at the interval's end."""
    chances: FloatArray = field(repr=False)
    """The true chances, shape (n, K)."""

    @property
    def accepted(self) -> FloatArray:
        """Accepted tokens of each interval, shape (n,)."""
        return np.asarray(self.accepted_at.sum(axis=1), dtype=np.float64)

    @property
    def drafted(self) -> FloatArray:
        """Draft tokens of each interval, shape (n,): every draft is full."""
        return np.asarray(self.drafts * self.accepted_at.shape[1], dtype=np.float64)


def simulate(server: Server, slots: int, rng: np.random.Generator) -> Traffic:
    """`slots` consecutive intervals of a server; those without a draft leave a gap, as in a log."""
    if slots < 1:
        raise SimulationError(f"slots: found {slots}; needs at least 1")
    calibrated = calibrate(server.chances, server.between_sd)
    z = latent(server.decays, server.interval_s, slots, rng)
    mean_running, running = simulated_load(server.load, server.interval_s, slots, rng)
    drafts = _drafts(server, mean_running, z, rng)
    seen = np.flatnonzero(drafts > 0)
    drafts, running = drafts[seen], running[seen]
    shift = calibrated.slope * z[seen] + server.load_effect * running
    chances = special.expit(shift[:, None] + np.asarray(calibrated.log_odds))
    return Traffic(
        end=np.asarray((seen + 1) * server.interval_s, dtype=np.float64),
        drafts=drafts.astype(np.float64),
        accepted_at=accepted_drafts(drafts, chances, rng),
        running=running,
        chances=chances,
    )


def calibrate(chances: tuple[float, ...], between_sd: float) -> Calibrated:
    """Solve a_k and b for a latent standard normal z, by Gauss-Hermite quadrature.

    Raises :class:`SimulationError` where no such server exists: a chance outside (0, 1), a spread
    that acceptance between 0 and 1 cannot have.
    """
    planted = np.asarray(chances, dtype=np.float64)
    if planted.ndim != 1 or len(planted) == 0 or np.any((planted <= 0) | (planted >= 1)):
        raise SimulationError(f"chances: found {chances}; needs numbers between 0 and 1, one for each position")
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    weights = weights / weights.sum()

    def solved(slope: float) -> tuple[FloatArray, FloatArray]:
        log_odds, through, total = np.empty(len(planted)), np.ones_like(nodes), np.zeros_like(nodes)
        for position, chance in enumerate(planted):
            before = through
            target = chance * float(weights @ before)
            log_odds[position] = optimize.brentq(
                lambda a, before=before, target=target: float(weights @ (before * special.expit(a + slope * nodes))) - target,
                -60,
                60,
            )
            through = before * special.expit(log_odds[position] + slope * nodes)
            total += through
        return log_odds, np.asarray(total / len(planted), dtype=np.float64)

    def excess(slope: float) -> float:
        _, acceptance = solved(slope)
        mean = float(weights @ acceptance)
        return float(np.sqrt(weights @ (acceptance - mean) ** 2)) - between_sd

    if between_sd == 0:
        return Calibrated(tuple(solved(0.0)[0].tolist()), 0.0)
    steepest = 5.0
    if between_sd < 0 or excess(steepest) < 0:
        raise SimulationError(f"between_sd: found {between_sd}; acceptance with chances {chances} cannot vary that much")
    slope = float(optimize.brentq(excess, 0.0, steepest, xtol=1e-10))
    return Calibrated(tuple(solved(slope)[0].tolist()), slope)


def latent(decays: tuple[Decay, ...], interval_s: float, slots: int, rng: np.random.Generator) -> FloatArray:
    """A stationary standard normal series.

    Its correlation at lag h > 0 is the sum of weight * exp(-h / time).
    """
    white = 1 - sum(decay.weight for decay in decays)
    if white < -1e-12 or any(decay.weight < 0 or decay.time_s <= 0 for decay in decays):
        raise SimulationError(f"decays: found {decays}; needs positive times, and weights that sum to 1 at most")
    z = np.sqrt(max(white, 0.0)) * rng.standard_normal(slots)
    for decay in decays:
        kept = float(np.exp(-interval_s / decay.time_s))
        noise = np.sqrt(1 - kept**2) * rng.standard_normal(slots)
        noise[0] /= np.sqrt(1 - kept**2)
        z += np.sqrt(decay.weight) * signal.lfilter([1.0], [1.0, -kept], noise)
    return np.asarray(z, dtype=np.float64)


def simulated_load(load: Load, interval_s: float, slots: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Requests running on the average of each interval, and at its end; both of shape (slots,)."""
    horizon = slots * interval_s
    # Whoever runs at the start came before it: requests of ten mean times earlier are as good as
    # gone.
    before = 10 * load.request_s
    arrivals = _arrivals(load, before + horizon, rng) - before
    ends = arrivals + rng.exponential(load.request_s, len(arrivals))
    change = np.zeros(slots + 1)
    busy = np.zeros(slots)
    change[0] = np.sum((arrivals < 0) & (ends >= 0))
    for times, sign in ((arrivals, 1.0), (ends, -1.0)):
        inside = times[(times >= 0) & (times < horizon)]
        slot = np.minimum((inside / interval_s).astype(np.int64), slots - 1)
        change[1:] += sign * np.bincount(slot, minlength=slots)
        busy += sign * np.bincount(slot, weights=(slot + 1) * interval_s - inside, minlength=slots)
    running = np.cumsum(change)
    mean = np.maximum(running[:-1] + busy / interval_s, 0.0)
    return mean, np.rint(running[1:]).astype(np.int64)


def _arrivals(load: Load, horizon: float, rng: np.random.Generator) -> FloatArray:
    if load.requests_per_s <= 0 or load.request_s <= 0 or load.busy_s <= 0 or load.idle_s < 0:
        raise SimulationError(f"load: found {load}; needs positive rates and times")
    if load.idle_s == 0 or np.isinf(load.busy_s):
        return rng.uniform(0, horizon, rng.poisson(load.requests_per_s * horizon))
    cycles = int(np.ceil(2 * horizon / (load.busy_s + load.idle_s))) + 20
    lengths = np.column_stack([rng.exponential(load.busy_s, cycles), rng.exponential(load.idle_s, cycles)])
    clock = np.concatenate([[0.0], np.cumsum(lengths)])
    busy_clock = np.concatenate([[0.0], np.cumsum(lengths * [1.0, 0.0])])
    # A draw of stretches that ends too soon repeats itself: times are taken modulo its length.
    busy_time = busy_clock[-1] * horizon / clock[-1]
    drawn = rng.uniform(0, busy_time, rng.poisson(load.requests_per_s * busy_time))
    turns, rest = np.divmod(drawn, busy_clock[-1])
    return np.asarray(turns * clock[-1] + np.interp(rest, busy_clock, clock), dtype=np.float64)


def _drafts(server: Server, mean_running: FloatArray, z: FloatArray, rng: np.random.Generator) -> IntArray:
    steps = server.steps
    if steps.per_s <= 0 or steps.slowdown < 0 or steps.sd_log < 0 or not -1 <= steps.correlation <= 1:
        raise SimulationError(f"steps: found {steps}; needs a positive pace and a correlation from -1 to 1")
    noise = steps.correlation * z + np.sqrt(1 - steps.correlation**2) * rng.standard_normal(len(z))
    factor = np.exp(steps.sd_log * noise - steps.sd_log**2 / 2)
    pace = steps.per_s / (1 + steps.slowdown * np.maximum(mean_running - 1, 0.0))
    return np.asarray(np.rint(mean_running * server.interval_s * pace * factor), dtype=np.int64)


def accepted_drafts(drafts: IntArray, chances: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Drafts of each interval accepted through each position, every draft on its own.

    `drafts` has shape (n,), `chances` and the result (n, K).
    """
    through = np.empty(chances.shape)
    before = np.asarray(drafts, dtype=np.int64)
    for position in range(chances.shape[1]):
        before = rng.binomial(before, chances[:, position])
        through[:, position] = before
    return through
