//! Sets of pods, in the syntax of expectations.

/// `web*2,api,other/job*3`: any two replicas of `web`; the pod `api`; three replicas of `job` in
/// namespace `other`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pods {
    exact: Vec<String>,
    replicas: Vec<(String, usize)>,
}

/// `namespace/name`, or `name` in the namespace `default`.
pub fn short(namespace: &str, name: &str) -> String {
    if namespace == "default" { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Pods {
    pub fn parse(text: &str) -> Self {
        let mut pods = Self { exact: Vec::new(), replicas: Vec::new() };
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('*') {
                Some((workload, count)) => pods.replicas.push((workload.to_owned(), count.parse().unwrap())),
                None => pods.exact.push(word.to_owned()),
            }
        }
        pods
    }

    /// Takes the pods of this set out of `pool`; `None`, without a change of `pool`, when some are
    /// missing.
    pub fn take(&self, pool: &mut Vec<String>) -> Option<Vec<String>> {
        let mut left = pool.clone();
        let mut taken = Vec::new();
        for name in &self.exact {
            taken.push(left.remove(left.iter().position(|pod| pod == name)?));
        }
        for (workload, count) in &self.replicas {
            for _ in 0..*count {
                taken.push(left.remove(left.iter().position(|pod| is_replica(pod, workload))?));
            }
        }
        *pool = left;
        Some(taken)
    }

    /// Whether the set is exactly `pods`.
    pub fn are(&self, pods: &[String]) -> bool {
        let mut left = pods.to_vec();
        self.take(&mut left).is_some() && left.is_empty()
    }
}

fn is_replica(pod: &str, workload: &str) -> bool {
    let number = pod.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[test]
fn replicas_are_counted_and_names_are_exact() {
    let pods = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<String>>();
    assert!(Pods::parse("web*2,api").are(&pods("web-0,api,web-7")));
    assert!(!Pods::parse("web*2").are(&pods("web-0,web-api-1")));
    assert!(!Pods::parse("web*1").are(&pods("web-0,web-1")));
}
