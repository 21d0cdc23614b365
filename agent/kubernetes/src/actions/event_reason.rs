//! Reasons of the Events that the agent writes by itself. The server instructs it to write the others. `deploy/events.md`
//! explains both, and a test compares it.

/// `reason` of an Event. The names are Karpenter's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventReason {
    Evicted,
    /// A pod is deleted at the deadline of a drain.
    Disrupted,
    /// The eviction of a pod is refused.
    FailedDraining,
    /// A drained node has volumes of pods that are gone.
    AwaitingVolumeDetachment,
}

impl EventReason {
    /// `reason`, in CamelCase.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "Evicted",
            Self::Disrupted => "Disrupted",
            Self::FailedDraining => "FailedDraining",
            Self::AwaitingVolumeDetachment => "AwaitingVolumeDetachment",
        }
    }

    /// `type`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::FailedDraining => "Warning",
            Self::Evicted | Self::Disrupted | Self::AwaitingVolumeDetachment => "Normal",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::EventReason::{AwaitingVolumeDetachment, Disrupted, Evicted, FailedDraining};

    #[test]
    fn every_reason_is_documented_with_its_type_and_no_other() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/events.md");
        let document = std::fs::read_to_string(path).unwrap();
        let rows = document.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<&str>>());
        let of_agent = cells.filter(|cells| matches!(cells[5], "agent" | "both"));
        let documented: BTreeSet<(String, String)> =
            of_agent.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())).collect();
        let reasons = [Evicted, Disrupted, FailedDraining, AwaitingVolumeDetachment];
        let of_code = reasons.map(|reason| (reason.as_str().to_owned(), reason.kind().to_owned()));
        assert_eq!(BTreeSet::from(of_code), documented);
    }
}
