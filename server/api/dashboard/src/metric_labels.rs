//! Labels of metrics, and units of their values.

use controller::view::ClusterView;
use model::resources;

use command::escape::escape_unprintable;
use metrics::Labels;

pub(crate) fn cluster(view: &ClusterView) -> Labels {
    vec![("cluster", text(&view.cluster))]
}

/// A name as the value of a label: it comes from a cluster.
pub(crate) fn text(name: &str) -> String {
    escape_unprintable(name).into_owned()
}

/// The labels of the cluster with further ones.
pub(crate) fn with<const N: usize>(view: &ClusterView, further: [(&'static str, &str); N]) -> Labels {
    let mut labels = cluster(view);
    labels.extend(further.map(|(name, value)| (name, text(value))));
    labels
}

/// A resource as the value of a label (Karpenter: in lower case, `_` in place of `-`).
pub(crate) fn resource_type(resource: &str) -> String {
    text(&resource.to_lowercase().replace('-', "_"))
}

/// Cores, of CPU; other resources as they are.
pub(crate) fn base_unit(resource: &str, amount: i64) -> f64 {
    if resource == resources::CPU { amount as f64 / 1_000.0 } else { amount as f64 }
}
