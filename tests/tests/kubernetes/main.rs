//! The agent with a real API server and kube-scheduler. `cargo test -p e2e --test kubernetes [--
//! part of a name]`

mod agent;
mod agreement;
mod capture;
mod captured_states;
mod coexist;
mod crds;
mod disruption;
mod documents;
mod drain;
mod fields;
mod footprint;
mod foreign_taint;
mod karpenter_crds;
mod kubelets;
mod manifests;
mod nominations;
mod other_scheduler;
mod rbac;
mod replay;
mod restart;
mod scale;
mod traces;
mod trust;
mod why;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use e2e::kubernetes::suite::{self, Programs, Scenario, ScenarioFuture, TestBed};

/// Generous, for busy machines.
const LIMIT: Duration = Duration::from_secs(600);

/// Variable with the path of another agent program.
const AGENT: &str = "FLEETWRIGHT_E2E_AGENT";

const fn scenario(name: &'static str, run: fn(Arc<TestBed>) -> ScenarioFuture) -> Scenario {
    Scenario { name, limit: LIMIT, needs_own: false, needs_scheduler: true, needs_all: false, only_by_name: false, run }
}

/// A scenario that kills the control plane or reads its audit log.
const fn on_its_own(name: &'static str, run: fn(Arc<TestBed>) -> ScenarioFuture) -> Scenario {
    Scenario { needs_own: true, ..scenario(name, run) }
}

fn main() -> ExitCode {
    // A measurement may use an optimized program.
    let agent = std::env::var_os(AGENT).unwrap_or_else(|| env!("CARGO_BIN_EXE_fleetwright-e2e-agent").into());
    let programs = Programs {
        server: env!("CARGO_BIN_EXE_fleetwright-e2e").into(),
        simulator: env!("CARGO_BIN_EXE_fleetwright-e2e-sim").into(),
        agent: agent.into(),
    };
    suite::run(
        &programs,
        &[
            scenario("fake_kubelets_register_run_pods_and_stop", |s| {
                Box::pin(kubelets::machines_register_run_pods_and_stop(s))
            }),
            crds::STORED,
            crds::REFUSED,
            Scenario {
                needs_scheduler: false,
                ..scenario("everything_in_deploy_is_accepted", |s| Box::pin(manifests::are_accepted(s)))
            },
            Scenario {
                needs_scheduler: false,
                ..scenario("the_fields_of_kubernetes_are_published", |s| Box::pin(fields::are_published(s)))
            },
            on_its_own("a_capture_of_5000_pods_is_planned", |s| Box::pin(capture::is_planned(s))),
            captured_states::AGREE,
            on_its_own("the_commands_of_the_documents_work", |s| Box::pin(documents::work(s))),
            agent::MACHINE,
            agent::DEADLINE,
            agent::SNAPSHOTS,
            agent::RESTARTED_API_SERVER,
            agent::REPLICAS,
            agent::EPOCHS,
            scenario("500_pods_are_created_and_deleted", |s| Box::pin(scale::up_and_down(s))),
            on_its_own("a_budget_blocks_a_drain_until_it_is_raised", |s| Box::pin(drain::budget_holds_and_releases(s))),
            on_its_own("a_deadline_ends_a_drain_that_a_budget_blocks", |s| Box::pin(drain::deadline(s))),
            scenario("a_node_or_a_claim_deleted_by_hand_is_drained_and_replaced", |s| {
                Box::pin(drain::deleted_by_hand(s))
            }),
            scenario("an_interrupted_machine_is_drained_and_replaced", |s| Box::pin(drain::interruption(s))),
            scenario("machines_older_than_expire_after_are_replaced", |s| Box::pin(drain::expiration(s))),
            disruption::DRIFT,
            disruption::TIGHT_BUDGETS,
            disruption::CONSOLIDATION,
            scenario("the_taint_of_another_removal_is_taken_off_and_removes_nothing_at_a_takeover", |s| {
                Box::pin(foreign_taint::is_taken_off(s))
            }),
            scenario("the_crds_of_every_release_of_karpenter_accept_what_is_written", |s| {
                Box::pin(karpenter_crds::accept_what_is_written(s))
            }),
            scenario("nothing_is_bought_for_pods_of_another_scheduler", |s| {
                Box::pin(other_scheduler::is_not_planned_for(s))
            }),
            on_its_own("a_nomination_is_one_request", |s| Box::pin(nominations::take_one_request_each(s))),
            scenario("the_agent_is_killed_at_every_stage", |s| Box::pin(restart::of_the_agent(s))),
            scenario("the_server_is_killed_at_every_stage", |s| Box::pin(restart::of_the_server(s))),
            on_its_own("the_api_server_is_killed_and_restarted", |s| Box::pin(restart::of_the_api_server(s))),
            scenario("pools_of_a_live_karpenter_are_unmanaged", |s| Box::pin(coexist::karpenter(s))),
            scenario("pods_that_cluster_autoscaler_scales_up_for_are_not_planned", |s| {
                Box::pin(coexist::cluster_autoscaler(s))
            }),
            scenario("each_ready_node_has_one_trace_of_server_and_agent", |s| Box::pin(traces::of_ready_nodes(s))),
            scenario("why_answers_seven_kinds_of_reason", |s| Box::pin(why::answers(s))),
            scenario("kube_scheduler_binds_pods_as_planned", |s| Box::pin(agreement::plans_are_carried_out(s))),
            Scenario {
                // For sixty clusters.
                limit: Duration::from_secs(3_600),
                ..scenario("kube_scheduler_binds_every_pod_that_a_removal_moves", |s| {
                    Box::pin(replay::every_moved_pod_is_bound(s))
                })
            },
            on_its_own("an_agent_is_authenticated_for_one_cluster_by_its_accounts_token", |s| {
                Box::pin(trust::tokens::authenticate_one_cluster(s))
            }),
            on_its_own("an_agent_is_authenticated_for_one_cluster_by_its_certificate", |s| {
                Box::pin(trust::certificates::authenticate_one_cluster(s))
            }),
            Scenario {
                only_by_name: true,
                ..scenario("the_agents_memory_and_cpu_are_bounded", |s| Box::pin(footprint::of_the_agent(s)))
            },
            Scenario {
                needs_all: true,
                ..on_its_own("the_agents_role_is_exactly_what_it_used", |s| Box::pin(rbac::is_exactly_what_was_used(s)))
            },
        ],
    )
}
