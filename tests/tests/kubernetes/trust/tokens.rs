//! Two real clusters on one server, each authenticated by the tokens of its own API server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::Program;
use e2e::kubernetes::cluster::Cluster;
use e2e::kubernetes::control_plane::ControlPlane;
use e2e::kubernetes::deploy::{self, AGENT};
use e2e::kubernetes::environment::{CLUSTER, Environment, Options, agent};
use e2e::kubernetes::process::Process;
use e2e::kubernetes::suite::{self, ScenarioResult, TestBed};
use e2e::kubernetes::tokens::{Signer, request_token};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    ADMITTED, Files, REJECTED, TIMEOUT, clear, credentials, now_s, one_kind, wait_until_logged, wait_until_served,
};

/// The other cluster's name in the fleet.
const OTHER: &str = "other";
/// Audience of the tokens (deploy/agent/run/deployment.yaml).
const AUDIENCE: &str = "fleetwright";
/// Lifetime that the kubelet requests, in seconds (deploy/agent/run/deployment.yaml).
const SECONDS: i64 = 3600;
/// Clock skew that the server tolerates, in seconds (`auth::token::LEEWAY_S`).
const LEEWAY_S: i64 = 30;

/// A cluster as an issuer of tokens.
struct Issuer {
    client: Client,
    signer: Signer,
    ca_file: String,
}

impl Issuer {
    async fn of(control_plane: &ControlPlane, client: &Client) -> anyhow::Result<Self> {
        let sample = request_token(client, AGENT, &[AUDIENCE], SECONDS).await?;
        let signer = Signer::new(&sample, &control_plane.secret("service-accounts.key")?)?;
        Ok(Self { client: client.clone(), signer, ca_file: control_plane.secret("ca.crt")?.display().to_string() })
    }

    /// A token of the agent's account, as a kubelet gets it.
    async fn token(&self) -> anyhow::Result<String> {
        request_token(&self.client, AGENT, &[AUDIENCE], SECONDS).await
    }

    /// An entry of the trust file: tokens of this agent's account authenticate `cluster`.
    fn trusted_as(&self, cluster: &str, keys: &str) -> String {
        let (issuer, subject) = (self.signer.issuer(), self.signer.subject());
        format!(
            "[[agents]]\ncluster = '{cluster}'\n\
             token = {{ issuer = '{issuer}', subject = '{subject}', {keys} }}\n"
        )
    }

    /// With keys discovered from the API server.
    fn discovered_as(&self, cluster: &str) -> String {
        self.trusted_as(cluster, &format!("ca-file = '{}'", self.ca_file))
    }
}

/// One server with two clusters, and agents that present invalid tokens.
struct TokenScenario {
    test_bed: Arc<TestBed>,
    environment: Environment,
    files: Files,
    ours: Issuer,
    /// The control plane of the other cluster; it stops when this value is dropped.
    other_plane: ControlPlane,
    other: Issuer,
}

/// An agent presents its account's token, with configured and with discovered keys; the token is
/// replaced and expires; no other agent is accepted for the cluster; and an authenticated cluster
/// cannot terminate another cluster's instances.
pub(in super::super) async fn authenticate_one_cluster(test_bed: Arc<TestBed>) -> ScenarioResult {
    let ours = Issuer::of(&*test_bed.control_plane.lock().await, &test_bed.client).await?;
    let other_plane = tokio::task::spawn_blocking(ControlPlane::find_or_start).await??;
    let other = Issuer::of(&other_plane, &suite::prepare_cluster(&other_plane).await?).await?;
    ensure!(ours.signer.issuer() != other.signer.issuer(), "two clusters with one issuer");
    // kubectl get --raw /openid/v1/jwks
    let keys = ours.client.request_text(http::Request::get("/openid/v1/jwks").body(Vec::new())?).await?;
    let files = Files::new(&(ours.trusted_as(CLUSTER, "jwks-file = 'keys.json'") + &other.discovered_as(OTHER)))?;
    files.write("keys.json", &keys)?;
    let options =
        Options { credentials: credentials(files.of_server(), files.with_token("token")), ..Options::default() };
    let environment = Environment::prepare_environment(&test_bed, "tokens", options).await?;
    let mut scenario = TokenScenario { test_bed, environment, files, ours, other_plane, other };
    scenario.all().await.with_context(|| scenario.environment.log_tails())
}

impl TokenScenario {
    async fn all(&mut self) -> ScenarioResult {
        let ends_s = now_s() + 5;
        self.files.write("token", &self.ours.signer.token_expiring_at(ends_s)?)?;
        self.environment.start_processes().await?;
        wait_until_logged(&self.environment, &[ADMITTED, CLUSTER], 1).await?;
        // The kubelet replaces a token before it ends; the agent reads it when it connects again.
        let second = self.ours.token().await?;
        self.files.write("token", &second)?;
        one_kind(&self.environment).await?;
        wait_until_served(&self.environment, 1).await?;
        let refused = self.reject_impostors().await?;
        let reconnected = self.outlive_the_first_token(ends_s).await?;
        wait_until_served(&self.environment, 2).await?;
        self.discover().await?;
        wait_until_served(&self.environment, 3).await?;
        let untouched = self.keep_instances_from_the_other_cluster().await?;
        self.refuse_as_client(&second).await?;
        ensure!(self.environment.server.count_lines(&[&second[..40]]) == 0, "the log repeats a token");
        clear(&self.environment).await?;
        Ok(format!(
            "the first token ended, and the agent was back with the second {reconnected:.1?} later; keys given, then \
             discovered; refused: {refused}; {untouched}"
        ))
    }

    /// Agents of the other cluster that connect as this one, each with another token.
    async fn reject_impostors(&self) -> ScenarioResult {
        let default = ("default", "default");
        let tokens = [
            ("forged", self.ours.signer.forged_token()?, "signature is invalid"),
            ("expired", self.ours.signer.token_expiring_at(now_s() - LEEWAY_S)?, "the token expired"),
            ("audience", request_token(&self.ours.client, AGENT, &["sts.amazonaws.com"], SECONDS).await?, "audience"),
            ("account", request_token(&self.ours.client, default, &[AUDIENCE], SECONDS).await?, "default:default"),
            ("stranger", self.other.token().await?, "no key of its issuer"),
            ("empty-handed", "none".to_owned(), "cannot be read"),
        ];
        let mut impostors = Vec::new();
        for (name, token, expected) in &tokens {
            self.files.write(name, token)?;
            let shown = self.files.with_token(name);
            let at = (&self.environment, self.other_plane.kubeconfig());
            impostors.push((self.files.start_impostor(&self.test_bed, (name, CLUSTER), at, shown)?, expected));
        }
        for (impostor, expected) in &mut impostors {
            impostor.wait_for_line(&["not authorized for this cluster"], TIMEOUT).await?;
            wait_until_logged(&self.environment, &[REJECTED, expected], 1).await?;
        }
        ensure!(self.environment.server.count_lines(&[ADMITTED, CLUSTER]) == 1, "another agent was admitted");
        Ok(tokens.map(|(name, _, _)| name).join(", "))
    }

    /// The stream ends when its token expires, and the next one uses the current token.
    async fn outlive_the_first_token(&mut self, ends_s: i64) -> anyhow::Result<Duration> {
        self.environment.agent.wait_for_line(&["no longer authorized for this cluster"], TIMEOUT).await?;
        let (ended, start) = (now_s(), Instant::now());
        ensure!(ended >= ends_s + LEEWAY_S, "a stream ended {} s before its token", ends_s + LEEWAY_S - ended);
        wait_until_logged(&self.environment, &[ADMITTED, CLUSTER], 2).await?;
        Ok(start.elapsed())
    }

    /// Switches from configured to discovered keys; the server reloads the file. Keys cached for
    /// the file are not accepted any more.
    async fn discover(&mut self) -> anyhow::Result<()> {
        let trust = self.ours.discovered_as(CLUSTER) + &self.other.discovered_as(OTHER);
        self.files.write("auth.toml", &trust)?;
        self.files.write("keys.json", "{\"keys\": []}")?;
        self.environment.agent.kill()?;
        self.environment.agent.start()?;
        wait_until_logged(&self.environment, &[ADMITTED, CLUSTER], 3).await?;
        let changed = self.environment.server.count_lines(&["trust file reloaded"]);
        ensure!(changed == 1, "the server read its trust file {changed} times");
        Ok(())
    }

    /// An administrator of the other cluster creates a NodeClaim with an instance of this cluster,
    /// and deletes it.
    async fn keep_instances_from_the_other_cluster(&self) -> ScenarioResult {
        let cluster = Cluster::with_namespace(&self.other.client, "tokens").await?;
        let mut other = self.agent_of_other(&cluster).await?;
        wait_until_logged(&self.environment, &[ADMITTED, OTHER], 1).await?;
        let ledger = self.environment.ledger.read_ledger().await?;
        let ours = ledger.paid().filter_map(|entry| entry.instance.as_ref()).next().context("nothing was launched")?;
        cluster.apply(stolen()).await?;
        let status = json!({ "status": { "providerID": ours.provider_id } });
        let claims = cluster.objects("karpenter.sh/v1", "NodeClaim");
        claims.patch_status("stolen", &PatchParams::default(), &Patch::Merge(status)).await?;
        cluster.delete("karpenter.sh/v1", "NodeClaim", "stolen").await?;
        wait_until_logged(
            &self.environment,
            &["refusing to terminate instance tagged for another owner", OTHER, &ours.id],
            1,
        )
        .await?;
        // The other cluster may not terminate the instance: the NodeClaim waits for an operator.
        ensure!(
            claims.get_opt("stolen").await?.is_some(),
            "a NodeClaim was removed although its instance was not terminated"
        );
        let after = self.environment.ledger.read_ledger().await?;
        ensure!(after.paid_ids() == ledger.paid_ids(), "{:?} became {:?}", ledger.paid_ids(), after.paid_ids());
        let claims = self.environment.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&Default::default()).await?;
        let leaving = claims.items.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
        ensure!((claims.items.len(), leaving) == (3, 0), "{} NodeClaims of ours, {leaving} leave", claims.items.len());
        // The same agent, authenticated for its own cluster, is rejected for this one.
        other.kill()?;
        let shown = self.files.with_token("other-token");
        let at = (&self.environment, self.other_plane.kubeconfig());
        let mut misused_token = self.files.start_impostor(&self.test_bed, ("misused-token", CLUSTER), at, shown)?;
        misused_token.wait_for_line(&["not authorized for this cluster"], TIMEOUT).await?;
        Ok(format!("{} was not terminated for a NodeClaim of another cluster", ours.id))
    }

    async fn agent_of_other(&self, cluster: &Cluster) -> anyhow::Result<Process> {
        self.files.write("other-token", &self.other.token().await?)?;
        let kubeconfig = self.files.path("other.kubeconfig");
        deploy::write_kubeconfig(cluster, self.other_plane.kubeconfig(), AGENT, &kubeconfig).await?;
        let (program, server) = (&self.test_bed.programs.agent, format!("https://{}", self.environment.grpc));
        let agent = agent(program, OTHER, &server, &kubeconfig, self.files.path("other.log"));
        let mut agent = agent.envs(self.files.with_token("other-token"));
        agent.start()?;
        Ok(agent)
    }

    /// An agent is no client: its token opens neither the view of the fleet nor a freeze.
    async fn refuse_as_client(&self, token: &str) -> anyhow::Result<()> {
        self.files.write("agents-token", token)?;
        let (program, server) =
            (self.test_bed.programs.server.display().to_string(), format!("https://{}", self.environment.grpc));
        let files = [self.files.path("ca.crt"), self.files.path("agents-token")];
        let ended = tokio::task::spawn_blocking(move || {
            let [ca_file, token] = files.map(|path| path.display().to_string());
            let as_agent = ["--server", &server, "--ca-file", &ca_file, "--token-file", &token];
            [&["freezes"][..], &["freeze", "--reason", "mischief"], &["audit"]].map(|command| {
                let arguments = [command, &as_agent[..]].concat();
                Program::new(&program, &arguments).run(TIMEOUT)
            })
        });
        for ended in ended.await? {
            ensure!(ended.status == 2, "{}{}", ended.stdout, ended.stderr);
            ensure!(ended.stderr.contains("has no client with this token"), "{}", ended.stderr);
        }
        Ok(())
    }
}

fn stolen() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "stolen",
            "annotations": { "fleetwright.dev/managed": "true" },
            "labels": { "karpenter.sh/nodepool": "default" },
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] }],
        },
    })
}
