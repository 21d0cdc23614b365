use super::*;

#[test]
fn codes_mean_what_ec2_s_reference_says() {
    let cases = [
        ("RequestLimitExceeded", 503, Meaning::Throttled),
        ("Throttling", 400, Meaning::Throttled),
        ("IdempotentParameterMismatch", 400, Meaning::Mismatch),
        ("InvalidInstanceID.NotFound", 400, Meaning::NotFound),
        ("InsufficientInstanceCapacity", 500, Meaning::NoCapacity),
        ("MaxSpotInstanceCountExceeded", 400, Meaning::NoCapacity),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 400, Meaning::NoCapacity),
        ("InternalError", 500, Meaning::Unclear),
        ("Unavailable", 503, Meaning::Unclear),
        ("HTTP 502", 502, Meaning::Unclear),
        ("UnauthorizedOperation", 403, Meaning::Refused),
        ("InvalidLaunchTemplateName.NotFoundException", 400, Meaning::Refused),
    ];
    for (code, status, expected) in cases {
        assert_eq!(meaning(code, status), expected, "{code} {status}");
    }
}

fn failure(meaning: Meaning) -> Failure {
    Failure { meaning, operation: "Call", code: "Code".to_owned(), message: "words".to_owned() }
}

#[test]
fn only_a_launch_runs_out_of_capacity_or_mistakes_a_token() {
    let token = Text::from("t");
    let launch = |meaning| failure(meaning).of_launch(&token, Vec::new());
    assert_eq!(launch(Meaning::NoCapacity), CloudError::NoCapacity { sold_out: Vec::new() });
    assert_eq!(launch(Meaning::Mismatch), CloudError::IdempotentParameterMismatch { token: token.clone() });
    assert!(matches!(failure(Meaning::NoCapacity).of_instance("i-1"), CloudError::Refused { .. }));
}

#[test]
fn a_missing_instance_is_named() {
    assert_eq!(failure(Meaning::NotFound).of_instance("i-1"), CloudError::NotFound { id: Text::from("i-1") });
}

#[test]
fn what_may_have_been_done_is_never_called_refused() {
    assert_eq!(
        failure(Meaning::Unclear).of_call().to_string(),
        "no answer from the cloud to Call (Code: words); the same request must be sent again to learn what came of it"
    );
    assert_eq!(failure(Meaning::Throttled).of_call(), CloudError::RequestLimitExceeded { retry_after_ms: 1_000 });
}
