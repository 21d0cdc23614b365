//! What the machines of the fleet cost now, summed by something.

use std::collections::BTreeMap;

use fleetwright_proto::v1;
use futures::future::join_all;
use model::ClusterName;
use tonic::Status;

use super::api::FleetApi;
use super::resource_names as names;

impl FleetApi {
    /// Sums of all replicas; of this one alone if `part` is set.
    pub(super) async fn cost_now(&self, request: v1::GetCostRequest, part: bool) -> Result<v1::Cost, Status> {
        let only = match request.parent.as_str() {
            "" => None,
            parent => names::parse_parent(parent)?,
        };
        let group = v1::CostGroup::try_from(request.group_by)
            .map_err(|_| Status::invalid_argument(format!("group_by {} is not known", request.group_by)))?;
        let mut unreachable = self.unreachable(only.as_ref()).await?;
        let mut sums = self.own_sums(only.as_ref(), group);
        if part {
            return Ok(cost(sums, Vec::new()));
        }
        let asked = self.replicas.reachable().into_iter().map(|(instance, mut client)| {
            let request = request.clone();
            async move { (instance, client.get_cost(request).await) }
        });
        for (instance, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => answer.into_inner().sums.into_iter().for_each(|sum| {
                    add(&mut sums, sum.group, sum.price_micro_usd_per_hour, sum.machine_count);
                }),
                Err(_) => unreachable.extend(self.unanswered_of(&instance, only.as_ref())),
            }
        }
        unreachable.sort_unstable();
        Ok(cost(sums, unreachable))
    }

    fn own_sums(&self, only: Option<&ClusterName>, group: v1::CostGroup) -> Sums {
        // As in lists: the view of a cluster whose lease was lost is published until the loss is noticed.
        let (view, own) = (self.views.borrow().clone(), self.directory.own());
        let is_asked = |name: &ClusterName| own.contains(name) && only.is_none_or(|only| only == name);
        let mut sums = Sums::new();
        for (cluster, published) in view.clusters.iter().filter(|(name, _)| is_asked(name)) {
            for node in published.rows.nodes.iter().filter(|node| !node.node_claim.is_empty()) {
                let key = match group {
                    v1::CostGroup::Unspecified => String::new(),
                    v1::CostGroup::Cluster => names::cluster(cluster),
                    v1::CostGroup::Pool => names::child(cluster, "pools", &node.pool),
                    v1::CostGroup::CapacityType => node.capacity_type.clone(),
                    v1::CostGroup::InstanceType => node.instance_type.clone(),
                    v1::CostGroup::Zone => node.zone.clone(),
                };
                add(&mut sums, key, node.price_micro_usd_per_hour, 1);
            }
        }
        sums
    }
}

/// Price and machines by group.
type Sums = BTreeMap<String, (i64, u32)>;

fn add(sums: &mut Sums, group: String, price: i64, machines: u32) {
    let sum = sums.entry(group).or_default();
    sum.0 += price;
    sum.1 += machines;
}

fn cost(sums: Sums, unreachable: Vec<String>) -> v1::Cost {
    let (price, machines) = sums.values().fold((0, 0), |(price, machines), sum| (price + sum.0, machines + sum.1));
    let mut sums: Vec<v1::CostSum> = sums
        .into_iter()
        .map(|(group, (price, machine_count))| v1::CostSum { group, price_micro_usd_per_hour: price, machine_count })
        .collect();
    sums.sort_by(|one, other| {
        (other.price_micro_usd_per_hour, &one.group).cmp(&(one.price_micro_usd_per_hour, &other.group))
    });
    v1::Cost { sums, price_micro_usd_per_hour: price, machine_count: machines, unreachable }
}
