//! How long launched nodes take until pods run on them.

use model::Millis;

/// Time from the launch of a node to its readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ReadyTime {
    /// Half of all nodes take no longer.
    pub p50: Millis,
    /// 95 of 100 nodes take no longer.
    pub p95: Millis,
}

/// The 95th percentile of a standard normal distribution.
const Z95: f64 = 1.644_853_627;

/// Halvings of the interval in which a percentile is searched: less than a millisecond is left of hours.
const HALVINGS: u32 = 40;

impl ReadyTime {
    /// Time until all of the nodes are ready, given that of each kind of node and their number. Nodes become ready
    /// independently, and each takes a time with a log-normal distribution. Zero without nodes.
    #[must_use]
    pub fn of_all(nodes: &[(Self, u32)]) -> Self {
        let launched = || nodes.iter().filter(|(_, count)| *count > 0);
        if launched().count() == 0 {
            return Self::default();
        }
        // A thousand million nodes are ready within eight standard deviations of the slowest kind.
        let latest = launched().map(|(time, _)| time.log_at(8.0)).fold(0.0, f64::max);
        let earliest = launched().map(|(time, _)| time.log_at(-8.0)).fold(f64::INFINITY, f64::min);
        let percentile = |part: f64| {
            let (mut low, mut high) = (earliest, latest);
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                let all_ready: f64 =
                    launched().map(|(time, count)| time.share_ready(middle).powf(f64::from(*count))).product();
                if all_ready < part { low = middle } else { high = middle }
            }
            Millis::new(high.exp().round() as i64)
        };
        Self { p50: percentile(0.5), p95: percentile(0.95) }
    }

    /// The percentiles of a log-normal distribution with this mean and standard deviation of the logarithm.
    pub(crate) fn of_log_normal(mean: f64, deviation: f64) -> Self {
        let at = |deviations: f64| Millis::new((mean + deviations * deviation).exp().round() as i64);
        Self { p50: at(0.0), p95: at(Z95) }
    }

    /// Mean and standard deviation of the logarithm of the time.
    pub(crate) fn log_normal(self) -> (f64, f64) {
        let p50 = self.p50.get().max(1) as f64;
        let p95 = (self.p95.get() as f64).max(p50);
        (p50.ln(), (p95 / p50).ln() / Z95)
    }

    /// Logarithm of the time that is `deviations` above the median.
    fn log_at(self, deviations: f64) -> f64 {
        let (mean, deviation) = self.log_normal();
        mean + deviations * deviation
    }

    /// Share of the nodes that are ready after the time with this logarithm.
    fn share_ready(self, log_time: f64) -> f64 {
        let (mean, deviation) = self.log_normal();
        if deviation > 0.0 { normal((log_time - mean) / deviation) } else { f64::from(u8::from(log_time >= mean)) }
    }
}

/// The distribution function of the standard normal distribution (Abramowitz and Stegun 26.2.17; error below 7.5e-8).
fn normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let polynomial = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * polynomial;
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: ReadyTime = ReadyTime { p50: Millis::from_secs(40), p95: Millis::from_secs(80) };

    fn seconds(nodes: &[(ReadyTime, u32)]) -> (f64, f64) {
        let found = ReadyTime::of_all(nodes);
        (found.p50.get() as f64 / 1_000.0, found.p95.get() as f64 / 1_000.0)
    }

    #[test]
    fn one_node_takes_its_own_time_and_no_node_none() {
        assert_eq!(ReadyTime::of_all(&[]), ReadyTime::default());
        assert_eq!(ReadyTime::of_all(&[(NODE, 0)]), ReadyTime::default());
        let (p50, p95) = seconds(&[(NODE, 1)]);
        assert!((p50 - 40.0).abs() < 0.01 && (p95 - 80.0).abs() < 0.01, "{p50} {p95}");
    }

    #[test]
    fn several_nodes_take_as_long_as_the_slowest() {
        // Both ready with probability ½: each with .7071, which is .5450 deviations above the median. The deviation of the
        // logarithm is ln 2 / 1.6449 = .4214, so the time is 40 × exp(.5450 × .4214) = 50.33 seconds.
        let (p50, p95) = seconds(&[(NODE, 2)]);
        assert!((p50 - 50.33).abs() < 0.02, "{p50}");
        // Both with .95: each with .97468, 1.9545 deviations: 40 × exp(1.9545 × .4214) = 91.15.
        assert!((p95 - 91.15).abs() < 0.03, "{p95}");
        let same = seconds(&[(NODE, 1), (NODE, 1)]);
        assert!((same.0 - p50).abs() < 0.01 && (same.1 - p95).abs() < 0.01);
    }

    #[test]
    fn a_node_that_always_takes_the_same_time_is_a_minimum() {
        let exact = ReadyTime { p50: Millis::from_secs(100), p95: Millis::from_secs(100) };
        // Half of the others are ready long before.
        assert_eq!(seconds(&[(NODE, 1), (exact, 3)]), (100.0, 100.0));
    }
}
