//! Metrics as values, and their text for Prometheus and OpenMetrics.
//!
//! What is counted is told by those who count it, as [`Family`] values at the time of a scrape; the encoding is that of
//! `prometheus-client`. `deploy/metrics.md` lists all of them, held by a test.

pub mod histogram;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::registry::Registry;

pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

#[derive(Debug, Clone)]
pub enum Value {
    Integer(i64),
    Number(f64),
    Histogram {
        sum: f64,
        /// Upper bounds with the count of each bucket alone; the last bound is infinite.
        buckets: Vec<(f64, u64)>,
    },
    /// A histogram whose buckets name traces.
    Traced(HistogramWithExemplars<Labels>),
    Summary {
        /// Quantiles, from 0 to 1, with their values.
        quantiles: Vec<(f64, f64)>,
        sum: f64,
        count: u64,
    },
}

#[derive(Debug, Clone)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    series: Vec<(Labels, Value)>,
}

impl Family {
    fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self { name, help, kind, labels: &[], series: Vec::new() }
    }

    /// The same with these labels, which its series have in this order; one without a value may be left out.
    #[must_use]
    pub fn labelled(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    /// A row of the reference: name, type, labels and meaning.
    pub fn reference(&self) -> String {
        let kind = format!("{:?}", self.kind).to_lowercase();
        let labels: Vec<String> = self.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {kind} | {} | {} |", self.name, labels.join(", "), self.help)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A counter; its name ends with `_total`.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Counter)
    }

    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Gauge)
    }

    pub fn histogram(name: &'static str, help: &'static str, sum: f64, buckets: Vec<(f64, u64)>) -> Self {
        Self::histograms(name, help).with(Vec::new(), Value::Histogram { sum, buckets })
    }

    /// A histogram whose series are added.
    pub fn histograms(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Histogram)
    }

    pub fn summary(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Summary)
    }

    pub fn push(&mut self, labels: Labels, value: Value) {
        let mut known = self.labels.iter();
        debug_assert!(labels.iter().all(|(label, _)| known.any(|one| one == label)), "{}: {labels:?}", self.name);
        self.series.push((labels, value));
    }

    /// The same with one more series.
    #[must_use]
    pub fn with(mut self, labels: Labels, value: Value) -> Self {
        self.push(labels, value);
        self
    }

    /// The same with one more series without labels.
    #[must_use]
    pub fn of(self, count: u64) -> Self {
        self.with(Vec::new(), count.into())
    }

    #[must_use]
    pub fn all(mut self, series: impl IntoIterator<Item = (Labels, Value)>) -> Self {
        series.into_iter().for_each(|(labels, value)| self.push(labels, value));
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        // The encoding adds the suffix of counters.
        let (name, kind) = match self.kind {
            Kind::Counter => (self.name.trim_end_matches("_total"), MetricType::Counter),
            Kind::Gauge => (self.name, MetricType::Gauge),
            Kind::Histogram => (self.name, MetricType::Histogram),
            Kind::Summary => return Ok(()),
        };
        let mut family = encoder.encode_descriptor(name, self.help, None, kind)?;
        for (labels, value) in &self.series {
            let mut series = family.encode_family(labels)?;
            match (self.kind, value) {
                (_, Value::Histogram { sum, buckets }) => {
                    let count = buckets.iter().map(|(_, count)| count).sum();
                    series.encode_histogram::<Labels>(*sum, count, buckets, None)?;
                }
                (_, Value::Traced(histogram)) => histogram.encode(series)?,
                (Kind::Counter, Value::Integer(count)) => {
                    series.encode_counter::<Labels, u64, u64>(&count.unsigned_abs(), None)?;
                }
                (Kind::Counter, Value::Number(sum)) => series.encode_counter::<Labels, f64, f64>(sum, None)?,
                (_, Value::Integer(value)) => series.encode_gauge(value)?,
                (_, Value::Number(value)) => series.encode_gauge(value)?,
                (_, Value::Summary { .. }) => {}
            }
        }
        Ok(())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(is_true: bool) -> Self {
        Self::Integer(i64::from(is_true))
    }
}

impl From<f64> for Value {
    /// A whole number is printed as one.
    fn from(value: f64) -> Self {
        if value.fract() == 0.0 && value.abs() < 1e15 { Self::Integer(value as i64) } else { Self::Number(value) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// That of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that a scraper asks for by its header `Accept`: OpenMetrics, if it names it.
    pub fn of_accept(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The families in a text format.
pub fn encode(families: Vec<Family>, format: Format) -> String {
    let (summaries, others): (Vec<Family>, Vec<Family>) =
        families.into_iter().partition(|family| family.kind == Kind::Summary);
    let mut encoded = lines_of(Families(others), format);
    for summary in summaries {
        let header = format!("# HELP {0} {1}\n# TYPE {0} summary\n", summary.name, summary.help);
        encoded.push_str(&header);
        // prometheus-client has no summaries: their lines are those of gauges with these names.
        let lines = lines_of(SummaryLines(summary), format);
        lines.lines().filter(|line| !line.starts_with('#')).for_each(|line| {
            encoded.push_str(line);
            encoded.push('\n');
        });
    }
    if format == Format::OpenMetrics {
        // Writing to a String cannot fail, here and below.
        let _always = text::encode_eof(&mut encoded);
    }
    encoded
}

fn lines_of(collector: impl Collector, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut encoded = String::new();
    let _always = match format {
        Format::Prometheus => prometheus_text::encode(&mut encoded, &registry),
        Format::OpenMetrics => text::encode_registry(&mut encoded, &registry),
    };
    encoded
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// The quantiles, sums and counts of a summary.
#[derive(Debug)]
struct SummaryLines(Family);

impl Collector for SummaryLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Family { name, help, series, .. } = &self.0;
        let mut quantiles = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            let Value::Summary { quantiles: all, .. } = value else { continue };
            for (quantile, value) in all {
                let labels: Labels = labels.iter().cloned().chain([("quantile", quantile.to_string())]).collect();
                quantiles.encode_family(&labels)?.encode_gauge(value)?;
            }
        }
        let (sum_name, count_name) = (format!("{name}_sum"), format!("{name}_count"));
        let mut sums = encoder.encode_descriptor(&sum_name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            if let Value::Summary { sum, .. } = value {
                sums.encode_family(labels)?.encode_gauge(sum)?;
            }
        }
        let mut counts = encoder.encode_descriptor(&count_name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            if let Value::Summary { count, .. } = value {
                counts.encode_family(labels)?.encode_gauge(&i64::try_from(*count).unwrap_or(i64::MAX))?;
            }
        }
        Ok(())
    }
}

/// The series of families, one a line, for tests.
pub fn series(families: Vec<Family>) -> Vec<String> {
    let text = encode(families, Format::Prometheus);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let hostile = "a\"b\\c\nd".to_owned();
        vec![
            Family::counter("x_total", "Things.").labelled(&["cluster"]).with(vec![("cluster", hostile)], 3_u64.into()),
            Family::gauge("cost_total", "A gauge that Karpenter names so.").with(Vec::new(), 1.5.into()),
            Family::histogram("d_seconds", "Durations.", 7.25, vec![(0.5, 1), (2.0, 0), (f64::INFINITY, 2)]),
        ]
    }

    #[test]
    fn each_format_has_its_names_and_escapes_values() {
        let expected = "\
# HELP x_total Things.
# TYPE x_total counter
x_total{cluster=\"a\\\"b\\\\c\\nd\"} 3
# HELP cost_total A gauge that Karpenter names so.
# TYPE cost_total gauge
cost_total 1.5
# HELP d_seconds Durations.
# TYPE d_seconds histogram
d_seconds_bucket{le=\"0.5\"} 1
d_seconds_bucket{le=\"2\"} 1
d_seconds_bucket{le=\"+Inf\"} 3
d_seconds_sum 7.25
d_seconds_count 3
";
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&encode(families(), Format::Prometheus)), sorted(expected));
        let open = encode(families(), Format::OpenMetrics);
        assert!(
            open.contains("# TYPE x counter\n") && open.contains("\nx_total{") && open.ends_with("# EOF\n"),
            "{open}"
        );
    }

    #[test]
    fn a_summary_has_quantiles_a_sum_and_a_count() {
        let of = |name: &str, quantiles, sum, count| {
            (vec![("nodepool", name.to_owned())], Value::Summary { quantiles, sum, count })
        };
        let family = Family::summary("s_seconds", "Durations.").labelled(&["nodepool"]);
        let family =
            family.all([of("a\"", vec![(0.5, 1.5), (1.0, 3.0)], 4.5, 2), of("b", vec![(0.5, f64::NAN)], 0.0, 0)]);
        let lines = "\
# HELP s_seconds Durations.
# TYPE s_seconds summary
s_seconds{nodepool=\"a\\\"\",quantile=\"0.5\"} 1.5
s_seconds{nodepool=\"a\\\"\",quantile=\"1\"} 3.0
s_seconds{nodepool=\"b\",quantile=\"0.5\"} NaN
s_seconds_sum{nodepool=\"a\\\"\"} 4.5
s_seconds_sum{nodepool=\"b\"} 0.0
s_seconds_count{nodepool=\"a\\\"\"} 2
s_seconds_count{nodepool=\"b\"} 0
";
        assert_eq!(encode(vec![family.clone()], Format::Prometheus), lines);
        assert_eq!(encode(vec![family], Format::OpenMetrics), format!("{lines}# EOF\n"));
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_names() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::of_accept(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::of_accept(Some("text/plain")), Format::Prometheus);
        assert_eq!(Format::of_accept(None), Format::Prometheus);
    }
}
