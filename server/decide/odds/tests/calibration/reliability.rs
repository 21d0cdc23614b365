//! Ten bins of what was stated, and what happened in each.

use std::fmt;

use crate::stream::Quote;

/// Quotes that a bin needs to be judged.
const JUDGED: usize = 1_000;

/// The reliability of quotes, and their Brier score beside those of others.
#[derive(Debug)]
pub struct Reliability {
    bins: [Bin; 10],
    /// Mean of (stated - outcome)², outcomes being 1 and 0.
    pub brier: f64,
    /// The same for the best constant: the share of successes, which nobody knows before.
    pub brier_of_constant: f64,
    /// The same for the rule of 180 seconds.
    pub brier_of_rule: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    quotes: usize,
    stated: f64,
    successes: f64,
}

impl Bin {
    fn mean_stated(&self) -> f64 {
        self.stated / self.quotes as f64
    }

    fn rate(&self) -> f64 {
        self.successes / self.quotes as f64
    }
}

impl Reliability {
    pub fn of(quotes: &[Quote]) -> Self {
        let mut bins = [Bin::default(); 10];
        let outcome = |quote: &Quote| f64::from(u8::from(quote.success));
        for quote in quotes {
            let bin = &mut bins[((quote.stated * 10.0) as usize).min(9)];
            bin.quotes += 1;
            bin.stated += quote.stated;
            bin.successes += outcome(quote);
        }
        let mean = |of: &dyn Fn(&Quote) -> f64| quotes.iter().map(of).sum::<f64>() / quotes.len() as f64;
        let rate = mean(&outcome);
        let brier = |stated: &dyn Fn(&Quote) -> f64| mean(&|quote| (stated(quote) - outcome(quote)).powi(2));
        Self {
            bins,
            brier: brier(&|quote| quote.stated),
            brier_of_constant: brier(&|_| rate),
            brier_of_rule: brier(&|quote| quote.by_rule),
        }
    }

    /// Largest distance between statement and outcome among the bins with enough quotes.
    pub fn largest_error(&self) -> f64 {
        let judged = self.bins.iter().filter(|bin| bin.quotes >= JUDGED);
        judged.map(|bin| (bin.mean_stated() - bin.rate()).abs()).fold(0.0, f64::max)
    }

    /// Number of bins with enough quotes.
    pub fn judged(&self) -> usize {
        self.bins.iter().filter(|bin| bin.quotes >= JUDGED).count()
    }
}

impl fmt::Display for Reliability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| stated | quotes | mean stated | succeeded |\n|---|---:|---:|---:|")?;
        for (at, bin) in self.bins.iter().enumerate().filter(|(_, bin)| bin.quotes > 0) {
            let (stated, rate) = (bin.mean_stated(), bin.rate());
            writeln!(f, "| {} % | {} | {:.1} % | {:.1} % |", at * 10, bin.quotes, stated * 100.0, rate * 100.0)?;
        }
        let (constant, rule) = (self.brier_of_constant, self.brier_of_rule);
        writeln!(f, "Brier score {:.4}; best constant {constant:.4}; rule of 180 seconds {rule:.4}", self.brier)?;
        write!(f, "largest error of a bin with {JUDGED} quotes: {:.1} points", self.largest_error() * 100.0)
    }
}
