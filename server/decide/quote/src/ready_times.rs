//! Times to ready of nodes to come, from those of earlier ones.

use std::collections::BTreeMap;

use model::{CapacityType, InstanceTypeName, Millis, Text};

use crate::ReadyTime;

/// What is assumed of nodes of which nothing is known: half are ready within 45 seconds, 95 of 100 within 90. An instance
/// of EC2 runs within 10 to 20 seconds, and a Node with its DaemonSets is ready 20 to 60 seconds later.
pub const PRIOR: ReadyTime = ReadyTime { p50: Millis::from_secs(45), p95: Millis::from_secs(90) };

/// Number of nodes that weigh as much as what is assumed of them.
const STRENGTH: f64 = 5.0;

/// Number of nodes that an estimate remembers: each later one takes a part of the weight of all before.
const MEMORY: f64 = 200.0;

/// A node that takes longer had a fault that says nothing about others.
const LONGEST: Millis = Millis::from_mins(30);

/// Times of earlier nodes by capacity type, and by capacity type and instance family. The times of a group have a log-normal
/// distribution; what few nodes leave open is taken from the wider group.
#[derive(Debug, Clone, Default)]
pub struct ReadyTimes {
    groups: BTreeMap<(CapacityType, Option<Text>), Moments>,
}

/// Weight, mean and variance of the logarithms of times in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    weight: f64,
    mean: f64,
    variance: f64,
}

impl ReadyTimes {
    /// Records that a node took this long. Times of more than half an hour, and negative ones, are left out.
    pub fn record(&mut self, instance_type: &InstanceTypeName, capacity_type: CapacityType, took: Millis) {
        if took > LONGEST || took <= Millis::ZERO {
            return;
        }
        let log = (took.get() as f64).ln();
        for group in [None, Some(family(instance_type))] {
            self.groups.entry((capacity_type, group)).or_default().add(log);
        }
    }

    /// The time of a node to come.
    #[must_use]
    pub fn of(&self, instance_type: &InstanceTypeName, capacity_type: CapacityType) -> ReadyTime {
        let groups = [None, Some(family(instance_type))];
        let known = groups.map(|group| self.groups.get(&(capacity_type, group)).copied().unwrap_or_default());
        let moments = known.iter().fold(Moments::of(PRIOR), |wider, own| own.pooled_with(wider));
        moments.ready_time()
    }
}

impl Moments {
    fn of(time: ReadyTime) -> Self {
        let (mean, deviation) = time.log_normal();
        Self { weight: STRENGTH, mean, variance: deviation * deviation }
    }

    fn add(&mut self, log: f64) {
        let kept = self.weight * (1.0 - 1.0 / MEMORY);
        self.weight = kept + 1.0;
        let step = (log - self.mean) / self.weight;
        self.variance = kept / self.weight * (self.variance + step * (log - self.mean));
        self.mean += step;
    }

    /// These together with a wider group, which weighs as much as a few nodes.
    fn pooled_with(self, wider: Self) -> Self {
        let part = self.weight / (self.weight + STRENGTH);
        let apart = self.mean - wider.mean;
        Self {
            weight: STRENGTH,
            mean: wider.mean + part * apart,
            variance: part * self.variance + (1.0 - part) * wider.variance + part * (1.0 - part) * apart * apart,
        }
    }

    fn ready_time(self) -> ReadyTime {
        ReadyTime::of_log_normal(self.mean, self.variance.max(0.0).sqrt())
    }
}

fn family(instance_type: &InstanceTypeName) -> Text {
    instance_type.split_once('.').map_or(&***instance_type, |(family, _)| family).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: &ReadyTimes, kind: &str, capacity_type: CapacityType) -> (f64, f64) {
        let time = times.of(&kind.into(), capacity_type);
        (time.p50.get() as f64 / 1_000.0, time.p95.get() as f64 / 1_000.0)
    }

    #[test]
    fn without_nodes_the_prior_holds() {
        let (p50, p95) = seconds(&ReadyTimes::default(), "m5.large", CapacityType::Spot);
        assert!((p50 - 45.0).abs() < 0.01 && (p95 - 90.0).abs() < 0.01, "{p50} {p95}");
    }

    #[test]
    fn many_equal_nodes_prevail_and_other_families_follow_half_way() {
        let mut times = ReadyTimes::default();
        for _ in 0..2_000 {
            times.record(&"m5.large".into(), CapacityType::Spot, Millis::from_secs(120));
        }
        // Weight 200 against 5 of the wider group, which is 200 against 5 of the prior: of ln(120 / 45) = .9808 the part
        // (5/205)² is left, .0006: 120 × exp(-.0006) = 119.93.
        let (p50, p95) = seconds(&times, "m5.xlarge", CapacityType::Spot);
        assert!((p50 - 119.93).abs() < 0.05, "{p50}");
        assert!(p95 > p50 && p95 < 150.0, "{p95}");
        // Another family has the wider group alone: 5/205 is left, 120 × exp(-.0239) = 117.17.
        let (p50, _) = seconds(&times, "c5.large", CapacityType::Spot);
        assert!((p50 - 117.17).abs() < 0.05, "{p50}");
        // Another capacity type is another thing.
        assert!((seconds(&times, "m5.large", CapacityType::OnDemand).0 - 45.0).abs() < 0.01);
    }

    #[test]
    fn the_spread_of_times_is_learned() {
        let mut times = ReadyTimes::default();
        // Logarithms are ln 60 ± ln 2 with equal numbers: standard deviation .6931, so p95 is 60 × exp(1.6449 × .6931) = 187.6
        // where nothing else is known; what is assumed has a smaller one.
        for at in 0..2_000 {
            let took = if at % 2 == 0 { 30 } else { 120 };
            times.record(&"m5.large".into(), CapacityType::Spot, Millis::from_secs(took));
        }
        let (p50, p95) = seconds(&times, "m5.large", CapacityType::Spot);
        assert!((p50 - 60.0).abs() < 1.0 && (180.0..189.0).contains(&p95), "{p50} {p95}");
    }

    #[test]
    fn recent_nodes_replace_old_ones_and_faults_count_for_nothing() {
        let mut times = ReadyTimes::default();
        for _ in 0..2_000 {
            times.record(&"m5.large".into(), CapacityType::Spot, Millis::from_secs(200));
        }
        for _ in 0..1_000 {
            times.record(&"m5.large".into(), CapacityType::Spot, Millis::from_secs(30));
            times.record(&"m5.large".into(), CapacityType::Spot, Millis::from_mins(31));
            times.record(&"m5.large".into(), CapacityType::Spot, Millis::from_secs(-5));
        }
        // (199/200)^1000 of the weight is left of the old ones: .0067 of ln(200/30) = 1.897, and some of the prior.
        let (p50, _) = seconds(&times, "m5.large", CapacityType::Spot);
        assert!((30.0..30.7).contains(&p50), "{p50}");
    }
}
