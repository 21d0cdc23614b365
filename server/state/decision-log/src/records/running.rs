//! Records of a plan of disruption: what runs on each node, PodDisruptionBudgets, disruption settings of
//! NodePools, and what consolidation requires.
//!
//! The record of a running node follows the node and its pods, so that it names no index, which would change
//! with other nodes; the records of its pods follow it.

use controller::DisruptionRequest;
use model::removal::PodBudget;
use model::running::{RunningCluster, RunningNode, RunningPod};
use model::{DisruptionPolicy, PoolName, Text};

use super::{RecordKeys, RecordReader, RecordWriter, tag};
use crate::codec::{Codec, DecodeError, Reader};

impl RecordWriter {
    pub(super) fn running_node(&mut self, running: &RunningNode, keys: &RecordKeys) {
        self.begin(tag::RUNNING_NODE, |out| running.put(out));
        running.pods.iter().for_each(|pod| self.running_pod(pod, keys));
    }

    fn running_pod(&mut self, running: &RunningPod, keys: &RecordKeys) {
        let RunningPod { pod, facts, is_nominated, unsafe_to_evict, local_volumes, other_scheduler, stated_cost } =
            running;
        self.begin(tag::RUNNING_POD, |out| {
            facts.put(out);
            is_nominated.put(out);
            unsafe_to_evict.put(out);
            local_volumes.put(out);
            other_scheduler.put(out);
            stated_cost.put(out);
            pod.is_some().put(out);
            if let Some(pod) = pod {
                keys.put_pod(pod, out);
            }
        });
    }

    /// Writes what concerns no single node.
    pub(super) fn disruption(&mut self, request: &DisruptionRequest) {
        let DisruptionRequest { running: RunningCluster { nodes: _, pod_budgets, policies }, settings } = request;
        for (name, budget) in pod_budgets {
            self.begin(tag::POD_BUDGET, |out| {
                name.put(out);
                budget.put(out);
            });
        }
        for (pool, policy) in policies {
            self.begin(tag::POLICY, |out| {
                pool.put(out);
                policy.put(out);
            });
        }
        self.begin(tag::SETTINGS, |out| settings.put(out));
    }
}

impl RecordReader<'_> {
    /// Reads a record of a plan of disruption.
    pub(super) fn take_disruption(&mut self, tag: u8, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        match tag {
            tag::RUNNING_NODE => self.running_node(from),
            tag::RUNNING_POD => self.running_pod(from),
            tag::POD_BUDGET => {
                let (name, budget) = <(Text, PodBudget)>::get(from)?;
                self.disruption.running.pod_budgets.insert(name, budget);
                Ok(())
            }
            tag::POLICY => {
                let (pool, policy) = <(PoolName, DisruptionPolicy)>::get(from)?;
                self.disruption.running.policies.insert(pool, policy);
                Ok(())
            }
            tag::SETTINGS => {
                self.disruption.settings = Some(Codec::get(from)?);
                Ok(())
            }
            _ => Err(DecodeError("a record of a kind that this program knows")),
        }
    }

    fn running_node(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let node = self.input.nodes.len().checked_sub(1).ok_or(DecodeError("what runs on a node"))?;
        let node = u32::try_from(node).map_err(|_| DecodeError("a table"))?;
        let running = RunningNode { node, ..Codec::get(from)? };
        self.disruption.running.nodes.push(running);
        Ok(())
    }

    fn running_pod(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let pod = RunningPod {
            facts: Codec::get(from)?,
            is_nominated: Codec::get(from)?,
            unsafe_to_evict: Codec::get(from)?,
            local_volumes: Codec::get(from)?,
            other_scheduler: Codec::get(from)?,
            stated_cost: Codec::get(from)?,
            pod: bool::get(from)?.then(|| self.read_pod(from)).transpose()?,
        };
        let node = self.disruption.running.nodes.last_mut().ok_or(DecodeError("a pod that runs on a node"))?;
        node.pods.push(pod);
        Ok(())
    }
}
