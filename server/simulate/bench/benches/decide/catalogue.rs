//! Offerings of the cases: the 400 types of Karpenter's benchmark, or EC2.

use serde_json::{Value, json};

/// Pools, and the catalogue that they use.
#[derive(Debug, Clone)]
pub struct PoolsAndCatalogue {
    pub catalogue: Option<Value>,
    /// NodePool, EC2NodeClass and other objects besides the pods.
    pub objects: Vec<Value>,
}

/// Restricts the EC2 instance types.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// amd64, families c, m and r, generation above 2, on-demand, three zones, no metal:
    /// Karpenter's getting-started pool.
    pub getting_started: bool,
    /// amd64 in three zones, spot allowed.
    pub amd64: bool,
    /// linux, on-demand: the minimum that most pools require.
    pub linux: bool,
    pub most_vcpu: Option<u32>,
    /// The categories g and p beside those of the getting-started pool, with NVIDIA GPUs only.
    pub gpu: bool,
}

impl Bounds {
    /// Every type that the region offers.
    pub const ANY: Self = Self { getting_started: false, amd64: false, linux: false, most_vcpu: None, gpu: false };
    /// The getting-started pool with types of at most 64 vCPU.
    pub const MODEST: Self = Self { getting_started: true, most_vcpu: Some(64), ..Self::ANY };
    /// Karpenter's getting-started pool.
    pub const GETTING_STARTED: Self = Self { getting_started: true, ..Self::ANY };
    /// amd64 in three zones, spot and burstable types included.
    pub const AMD64: Self = Self { amd64: true, ..Self::ANY };
    /// Any type on-demand, for linux.
    pub const LINUX: Self = Self { linux: true, ..Self::ANY };
}

/// The 400 types of Karpenter's benchmark and a pool without requirements.
pub fn generated() -> PoolsAndCatalogue {
    let zones = ["test-zone-1", "test-zone-2", "test-zone-3"];
    let types: Vec<Value> = (1..=400).map(generated_type).collect();
    let catalogue = json!({
        "apiVersion": "fleetwright.dev/v1", "kind": "Catalogue",
        "regions": [{"name": "us-east-1", "zones": zones}], "types": types,
    });
    PoolsAndCatalogue { catalogue: Some(catalogue), objects: objects(&[]) }
}

/// The type with `cores` cores, 2 GiB and 10 pods per core; a tenth of a dollar per core and per
/// 10⁹ bytes, spot or not.
fn generated_type(cores: u64) -> Value {
    let bytes = (2 * cores) << 30;
    let price = 0.1 * cores as f64 + 0.1 * bytes as f64 / 1e9;
    let price = (price * 1e6).round() / 1e6;
    let sales = [("spot", 1), ("spot", 2), ("on-demand", 1), ("on-demand", 2), ("on-demand", 3)];
    let offerings = sales.map(|(capacity_type, zone)| {
        json!({"zone": format!("test-zone-{zone}"), "capacityType": capacity_type, "priceUsdPerHour": price})
    });
    json!({
        "name": format!("fake-it-{}", cores - 1),
        "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
        "capacity": {
            "cpu": cores.to_string(), "memory": format!("{}Gi", 2 * cores), "pods": (10 * cores).to_string(),
        },
        "overhead": {"cpu": "100m", "memory": "10Mi"},
        "offerings": offerings,
    })
}

/// EC2 in us-east-1, restricted by `bounds`.
pub fn ec2(bounds: Bounds) -> PoolsAndCatalogue {
    let one_of = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let mut requirements = Vec::new();
    if bounds.getting_started {
        let categories: &[&str] = if bounds.gpu { &["c", "m", "r", "g", "p"] } else { &["c", "m", "r"] };
        let metal = ["metal", "metal-12xl", "metal-16xl", "metal-24xl", "metal-32xl", "metal-48xl", "metal-96xl"];
        requirements.extend([
            one_of("kubernetes.io/arch", &["amd64"]),
            one_of("karpenter.k8s.aws/instance-category", categories),
            json!({"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}),
            json!({"key": "karpenter.k8s.aws/instance-size", "operator": "NotIn", "values": metal}),
            one_of("karpenter.sh/capacity-type", &["on-demand"]),
            one_of("topology.kubernetes.io/zone", &["us-east-1a", "us-east-1b", "us-east-1c"]),
        ]);
    }
    if bounds.amd64 {
        requirements.extend([
            one_of("kubernetes.io/arch", &["amd64"]),
            one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
            one_of("topology.kubernetes.io/zone", &["us-east-1a", "us-east-1b", "us-east-1c"]),
        ]);
    }
    if bounds.linux {
        requirements
            .extend([one_of("kubernetes.io/os", &["linux"]), one_of("karpenter.sh/capacity-type", &["on-demand"])]);
    }
    if let Some(most) = bounds.most_vcpu {
        let above = (most + 1).to_string();
        requirements.push(json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": [above]}));
    }
    PoolsAndCatalogue { catalogue: None, objects: objects(&requirements) }
}

/// One NodePool with `requirements` and its class.
fn objects(requirements: &[Value]) -> Vec<Value> {
    let tags = json!([{"tags": {"karpenter.sh/discovery": "bench"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "bench", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": tags, "securityGroupSelectorTerms": tags,
        },
    });
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "limits": {"cpu": "10000000", "memory": "10000000Gi"},
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
        },
    });
    vec![class, pool]
}
