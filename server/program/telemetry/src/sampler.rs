//! Which traces are exported.

use std::env;

use trace::TraceId;

/// Exports all traces, or a share of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sampler {
    /// A trace is exported if the number in its id (63 bits) is below this one.
    below: u64,
}

/// The first number that 63 bits do not hold.
const ALL: u64 = 1 << 63;

impl Sampler {
    /// The one that OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG name (OpenTelemetry: environment variables). A decision has
    /// no parent, so those based on it are the same as those without.
    pub(super) fn from_environment() -> Self {
        let variable = |name| env::var(name).unwrap_or_default();
        Self::new(&variable("OTEL_TRACES_SAMPLER"), &variable("OTEL_TRACES_SAMPLER_ARG"))
    }

    fn new(name: &str, argument: &str) -> Self {
        let share = match name.strip_prefix("parentbased_").unwrap_or(name) {
            "always_off" => 0.0,
            "traceidratio" => argument.parse().unwrap_or(1.0_f64).clamp(0.0, 1.0),
            _ => 1.0,
        };
        Self { below: (share * ALL as f64) as u64 }
    }

    /// Whether the spans of a trace are exported. Every process decides the same.
    pub(super) fn is_sampled(&self, trace: TraceId) -> bool {
        let number = trace.to_bytes()[8..].iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        (number >> 1) < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(last: [u8; 8]) -> TraceId {
        let bytes: Vec<u8> = [1; 8].into_iter().chain(last).collect();
        TraceId::from_slice(&bytes).unwrap()
    }

    #[test]
    fn the_share_of_traces_is_the_one_that_the_environment_names() {
        let [low, middle, high] = [[0; 8], [0x80, 0, 0, 0, 0, 0, 0, 0], [0xff; 8]].map(trace);
        let sampled = |name, argument| [low, middle, high].map(|trace| Sampler::new(name, argument).is_sampled(trace));
        assert_eq!(sampled("", ""), [true; 3]);
        assert_eq!(sampled("parentbased_always_on", ""), [true; 3]);
        assert_eq!(sampled("always_off", ""), [false; 3]);
        // A half of all numbers: the middle one is the first that is left out.
        assert_eq!(sampled("traceidratio", "0.5"), [true, false, false]);
        assert_eq!(sampled("parentbased_traceidratio", "0.51"), [true, true, false]);
        assert_eq!(sampled("traceidratio", "0"), [false; 3]);
        assert_eq!(sampled("traceidratio", "nonsense"), [true; 3]);
    }
}
