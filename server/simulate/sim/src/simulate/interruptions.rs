//! The result of `fleetwright-sim simulate interruptions`, as a table.

use std::fmt::Write;

use simulation::interruptions::Report;
use simulation::measured::percentile;

use super::form::Findings;

impl Findings for Report {
    fn is_success(&self) -> bool {
        Self::is_success(self)
    }

    fn table(&self) -> String {
        let Report { clusters, notices, kills, rows, instances_stored, tainted, launched, waiting, .. } = self;
        let taint = |percent| percentile(&self.to_taint_ms, percent) as f64 / 1_000.0;
        let mut text = format!(
            "{notices} notices for {clusters} clusters in {:.0} s; the server was killed {kills} times\n\
         stored: {rows} rows for {instances_stored} instances\n\
         tainted: {tainted} Nodes, {:.2} s after the notice (median; 99% within {:.2} s, all within {:.2} s)\n\
         replaced: {launched} instances launched; {waiting} pods do not run, {:.0} s after the last notice\n",
            self.sent_in.as_secs_f64(),
            taint(50),
            taint(99),
            taint(100),
            self.settled_in.as_secs_f64(),
        );
        let (leaked, twice) = (self.leaked.len(), self.launched_twice.len());
        // Writing to a String cannot fail.
        let _always = writeln!(text, "instances leaked: {leaked}; NodeClaims with more than one instance: {twice}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_that_was_not_stored_is_a_failure() {
        let all = Report { notices: 2, rows: 2, instances_stored: 2, tainted: 2, ..Report::default() };
        assert!(all.is_success());
        assert!(!Report { rows: 1, instances_stored: 1, ..all }.is_success());
    }

    #[test]
    fn the_time_to_the_taint_is_in_the_table() {
        let report = Report { to_taint_ms: vec![100, 200, 1_500], ..Report::default() };
        assert!(report.table().contains("0.20 s after the notice (median; 99% within 1.50 s"), "{}", report.table());
    }
}
