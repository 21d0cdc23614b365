//! The metrics of a long run, as a scraper would have them.

use dashboard::metrics_of_cluster;
use model::{Millis, Timestamp};

use crate::deterministic::Simulation;

const INTERVAL: Millis = Millis::from_mins(1);

/// The metrics of the cluster at a time.
#[derive(Debug, Clone)]
pub struct Scrape {
    /// When they were scraped.
    pub at: Timestamp,
    /// In the text format of Prometheus; empty while no server decides for the cluster.
    pub text: String,
}

/// The scrapes of a run, a minute apart.
#[derive(Debug, Default)]
pub(super) struct Scrapes(Vec<Scrape>);

impl Scrapes {
    /// Scrapes the metrics if it is time for it.
    pub(super) fn observe(&mut self, simulation: &Simulation, now: Timestamp) {
        if self.0.last().is_none_or(|last| now.duration_since(last.at) >= INTERVAL) {
            let text = simulation.view_of_first(now).map(|view| metrics_of_cluster(&view, now));
            self.0.push(Scrape { at: now, text: text.unwrap_or_default() });
        }
    }

    pub(super) fn into_scrapes(self) -> Vec<Scrape> {
        self.0
    }
}
