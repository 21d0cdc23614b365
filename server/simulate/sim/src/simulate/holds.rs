//! The result of `fleetwright-sim simulate holds`, as a table.

use std::fmt::Write;

use simulation::holds::Report;
use simulation::measured::percentile;

use super::form::Findings;

impl Findings for Report {
    fn is_success(&self) -> bool {
        Self::is_success(self)
    }

    fn table(&self) -> String {
        let Report { kills, created, repeated, committed, released, expired, failed, kept, launched, alive, .. } = self;
        let ready = |percent| percentile(&self.ready_ms, percent) as f64 / 1_000.0;
        let mut text = format!(
            "{created} holds, {kills} kills of two servers, {:.0} s; {repeated} calls were repeated\n\
         {committed} committed, {released} released, {expired} expired, {failed} failed ({} with nodes), {kept} kept\n\
         room was there after {:.1} s (median; 99% within {:.1} s)\n\
         {launched} instances launched; {alive} are billed at the end\n",
            self.took.as_secs_f64(),
            self.failed_with_nodes,
            ready(50),
            ready(99),
        );
        for (name, found) in self.violations() {
            // Writing to a String cannot fail.
            let _always = writeln!(
                text,
                "{name}: {} {}",
                found.len(),
                found.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_violation_is_a_failure_and_is_printed() {
        assert!(Report::default().is_success());
        let lost = Report { lost: vec!["clusters/c/holds/h".to_owned()], ..Report::default() };
        assert!(!lost.is_success());
        assert!(lost.table().contains("lost: 1 clusters/c/holds/h") && lost.document()["well"] == false);
    }
}
