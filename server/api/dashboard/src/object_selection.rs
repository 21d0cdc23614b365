//! Which clusters' nodes and pods a scraper asks for: `/metrics?nodes=shop-*&pods=shop-eu,shop-us`.

use agent_session::state::check_cluster_name;
use axum::http::StatusCode;
use controller::view::ClusterView;
use futures::future::join_all;
use model::ClusterName;

use super::object_metrics::ObservedCluster;
use fleet_api::questions::Questions;
use metrics::Family;

/// Maximum number of series of nodes and pods in an answer, of about half a kilobyte each: those of ten thousand nodes, or of a
/// hundred thousand pods.
const MAX_SERIES: usize = 250_000;

/// Series of a node with the usual resources: five metrics, four of them of each resource.
const SERIES_OF_NODE: usize = 25;

/// Series of a pod that waits.
const SERIES_OF_POD: usize = 2;

/// Names of clusters, and prefixes of names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Clusters {
    names: Vec<String>,
    prefixes: Vec<String>,
}

impl Clusters {
    fn contains(&self, cluster: &str) -> bool {
        self.names.iter().any(|name| name == cluster) || self.prefixes.iter().any(|prefix| cluster.starts_with(prefix))
    }

    fn add(&mut self, pattern: &str) -> Result<(), String> {
        let prefix = pattern.strip_suffix('*');
        let is_valid = prefix == Some("") || check_cluster_name(prefix.unwrap_or(pattern)).is_ok();
        if !is_valid {
            return Err(format!(
                "{pattern:?} is neither the name of a cluster nor such a prefix with one '*' at its end; write for example \
                 nodes=shop-* or nodes=shop-eu,shop-us\n"
            ));
        }
        match prefix {
            Some(prefix) => self.prefixes.push(prefix.to_owned()),
            None => self.names.push(pattern.to_owned()),
        }
        Ok(())
    }
}

/// Clusters whose nodes and whose pods have series.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectSelection {
    nodes: Clusters,
    pods: Clusters,
}

impl ObjectSelection {
    /// What the parameters of a scrape ask for.
    ///
    /// # Errors
    /// A parameter is unknown, or a value is no name or prefix of clusters.
    pub(crate) fn of_parameters(parameters: &[(String, String)]) -> Result<Self, (StatusCode, String)> {
        let mut selection = Self::default();
        for (name, values) in parameters {
            let clusters = match name.as_str() {
                "nodes" => &mut selection.nodes,
                "pods" => &mut selection.pods,
                _ => {
                    let why = format!("there is no parameter {name:?}; write nodes or pods\n");
                    return Err((StatusCode::BAD_REQUEST, why));
                }
            };
            for pattern in values.split(',') {
                clusters.add(pattern).map_err(|why| (StatusCode::BAD_REQUEST, format!("{name}: {why}")))?;
            }
        }
        Ok(selection)
    }

    pub(crate) fn is_of_nodes(&self) -> bool {
        self.nodes != Clusters::default()
    }

    pub(crate) fn is_of_pods(&self) -> bool {
        self.pods != Clusters::default()
    }

    /// Checks that the answer would not be too large.
    ///
    /// # Errors
    /// The clusters have too many nodes and pods.
    pub(crate) fn check_size<'v>(
        &self,
        views: impl Iterator<Item = &'v ClusterView>,
    ) -> Result<(), (StatusCode, String)> {
        let asked = |clusters: &Clusters, view: &ClusterView, objects: usize| {
            if clusters.contains(&view.cluster) { objects } else { 0 }
        };
        let (nodes, pods) = views.fold((0, 0), |(nodes, pods), view| {
            (nodes + asked(&self.nodes, view, view.node_count), pods + asked(&self.pods, view, view.pods))
        });
        check_objects(nodes, pods)
    }

    /// The states of those of `clusters` that are asked for, and the number of those whose task does not answer.
    pub(crate) async fn observe(
        &self,
        clusters: impl Iterator<Item = &ClusterName>,
        questions: &Questions,
    ) -> (Vec<ObservedCluster>, usize) {
        let asked = clusters.filter_map(|cluster| {
            let (nodes, pods) = (self.nodes.contains(cluster), self.pods.contains(cluster));
            (nodes || pods).then_some(async move {
                let state = questions.state(cluster.clone()).await.ok()?;
                Some(ObservedCluster { cluster: cluster.clone(), state, nodes, pods })
            })
        });
        let answers = join_all(asked).await;
        let missing = answers.iter().filter(|answer| answer.is_none()).count();
        (answers.into_iter().flatten().collect(), missing)
    }
}

fn check_objects(nodes: usize, pods: usize) -> Result<(), (StatusCode, String)> {
    if nodes * SERIES_OF_NODE + pods * SERIES_OF_POD <= MAX_SERIES {
        return Ok(());
    }
    let why = format!(
        "{nodes} nodes and {pods} pods are asked for, which have more than {MAX_SERIES} series; ask for fewer clusters, and for \
         others with a scrape of their own\n"
    );
    Err((StatusCode::BAD_REQUEST, why))
}

/// Clusters whose series of nodes and pods are missing in the answer.
pub fn missing(clusters: usize) -> Family {
    let help = "Clusters whose series of nodes and pods were asked for and are missing, because their tasks did not answer in time.";
    Family::gauge("fleetwright_metrics_clusters_missing", help).with(Vec::new(), clusters.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(parameters: &[(&str, &str)]) -> Result<ObjectSelection, String> {
        let owned: Vec<(String, String)> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ObjectSelection::of_parameters(&owned).map_err(|(_, why)| why)
    }

    #[test]
    fn a_scraper_names_clusters_and_prefixes() {
        let asked = selection(&[("nodes", "shop-*,blue"), ("nodes", "green"), ("pods", "*")]).unwrap();
        let of = |cluster| (asked.nodes.contains(cluster), asked.pods.contains(cluster));
        assert_eq!(
            ["shop-eu", "blue", "green", "blues"].map(of),
            [(true, true), (true, true), (true, true), (false, true)]
        );
        assert!(asked.is_of_nodes() && asked.is_of_pods());
        let nothing = selection(&[]).unwrap();
        assert!(!nothing.is_of_nodes() && !nothing.is_of_pods() && !nothing.nodes.contains("blue"));
    }

    #[test]
    fn an_answer_has_a_bound() {
        assert!(check_objects(10_000, 0).is_ok() && check_objects(0, 125_000).is_ok());
        let (status, why) = check_objects(10_000, 1).unwrap_err();
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(why.starts_with("10000 nodes and 1 pods are asked for, which have more than 250000 series; "), "{why}");
    }

    #[test]
    fn what_is_no_name_or_parameter_is_refused() {
        for (parameter, value, why) in [
            ("nodes", "", "nodes: \"\" is neither the name of a cluster"),
            ("nodes", "a b", "nodes: \"a b\" is neither"),
            ("pods", "*a", "pods: \"*a\" is neither"),
            ("node", "a", "there is no parameter \"node\"; write nodes or pods"),
        ] {
            let refused = selection(&[(parameter, value)]).unwrap_err();
            assert!(refused.starts_with(why), "{refused}");
        }
    }
}
