//! One cluster has one name, until an operator has it forgotten.

use e2e::Program;
use fleetwright_proto::v1::connect_response::Message as Answer;
use tonic::Code;

use crate::agent_stream::AgentStream;
use crate::{SIMULATOR, TIMEOUT, fleetwright};

/// Runs `fleetwright forget` until the server has noticed that the agent is gone.
fn forget(server: &str, cluster: &str) -> e2e::ExitResult {
    let end = std::time::Instant::now() + TIMEOUT;
    loop {
        let ended = fleetwright(&["forget", cluster, "--server", server]);
        if !ended.stderr.contains("is connected") || std::time::Instant::now() > end {
            return ended;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cluster_has_one_name_until_it_is_forgotten() {
    let server =
        Program::new(SIMULATOR, &["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"]).start();
    let [address, _dashboard] = server.wait_for_urls(TIMEOUT);

    let mut first = AgentStream::open(&address, "production-1").await;
    assert!(matches!(first.answer().await, Ok(Answer::Welcome(_))));
    // The fleet lists the agent after its Welcome, and logs this line once it does.
    let _listed = server.wait_for_line(&["agent connected", "cluster=production-1"], TIMEOUT);
    let refused = AgentStream::open(&address, "production-one").await.answer().await.expect_err("it has another name");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let expected = "is known as production-1, and its agent reports the name production-one; if it is production-one, write \
                    cluster-uid = \"uid-of-the-one-cluster\" into the entry of production-one in the trust file (auth.file), or run \
                    `fleetwright forget production-1`; if it is production-1, set cluster.name = \"production-1\" in the agent's \
                    settings";
    assert!(refused.message().contains(expected), "{refused}");

    let ended = fleetwright(&["forget", "production-1", "--server", &address]);
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("the agent of cluster production-1 is connected"), "{}", ended.stderr);
    let ended = fleetwright(&["forget", "prodction-1", "--server", &address]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("did you mean \"production-1\"?"), "{}", ended.stderr);

    drop(first);
    let ended = tokio::task::block_in_place(|| forget(&address, "production-1"));
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "forgotten: the fleet has no cluster production-1 any more\n")
    );
    let mut renamed = AgentStream::open(&address, "production-one").await;
    assert!(matches!(renamed.answer().await, Ok(Answer::Welcome(_))));
    assert_eq!(server.stop(TIMEOUT), 0);
}
