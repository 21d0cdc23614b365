//! The result of `fleetwright-sim simulate crashes`, as a table.

use std::fmt::Write;

use simulation::crashes::{CrashPoint, Report};
use simulation::measured::percentile;

use super::form::Findings;

impl Findings for Report {
    fn is_success(&self) -> bool {
        Self::is_success(self)
    }

    fn table(&self) -> String {
        let mut text = format!(
            "{} kills in {:.0} s; connections to the database cut {} times, the database restarted {} times; \
         {} NodeClaims removed by force\n",
            self.kills,
            self.took.as_secs_f64(),
            self.cuts,
            self.restarts,
            self.claims_removed,
        );
        // Writing to a String cannot fail.
        for crash_point in CrashPoint::ALL {
            let count = self.hits.crash_points.get(&crash_point).copied().unwrap_or(0);
            let _always = writeln!(text, "  {:<20} {count:>4} {}", crash_point.as_str(), "#".repeat(count.min(100)));
        }
        let _always = writeln!(text, "  {:<20} {:>4}", "outside of these", self.hits.elsewhere);
        let _always = writeln!(
            text,
            "launches resumed {} ms after a kill (median; 99% within {} ms)",
            percentile(&self.resumed_ms, 50),
            percentile(&self.resumed_ms, 99)
        );
        let _always = writeln!(
            text,
            "cloud ledger: {} launch calls, {} instances launched, {} remaining; {} pods ran, {} do not",
            self.launches, self.launched, self.alive, self.pods_ran, self.waiting
        );
        for (what, names) in verdicts(self) {
            let _always = writeln!(text, "{what}: {}{}", names.len(), listed(names));
        }
        text
    }
}

fn verdicts(report: &Report) -> [(&'static str, &Vec<String>); 3] {
    [
        ("machines leaked", &report.leaked),
        ("NodeClaims with more than one instance", &report.launched_twice),
        ("NodeClaims without an instance", &report.hollow),
    ]
}

fn listed(names: &[String]) -> String {
    let listed: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    if listed.is_empty() { String::new() } else { format!(" ({})", listed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_reported_as_a_failure() {
        let report = Report { leaked: vec!["aws:///a/i-1".to_owned()], ..Report::default() };
        assert!(!report.is_success());
        assert!(report.table().contains("machines leaked: 1 (aws:///a/i-1)\n"), "{}", report.table());
        assert_eq!(report.document()["leaked"][0], "aws:///a/i-1");
    }
}
