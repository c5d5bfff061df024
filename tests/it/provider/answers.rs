//! What is wrong before anybody looks into an answer, for every type of provider.

use language::analysis::providers::Providers;
use metrics_providers::provider::{ProviderError, Registry};

use super::{
    fetch, provider,
    stub::{Stub, Then},
};

/// The error that both types give for an answer.
async fn both(stub: &Stub, keys: &str) -> ProviderError {
    let url = format!("url: 'http://{}', max_points: 100{keys}", stub.address);
    let prometheus =
        fetch(&provider(&format!("type: prometheus, step: 60s, {url}")), "up").await.unwrap_err();
    let web = fetch(&provider(&format!("type: web, json_path: $.a, {url}")), "/up").await.unwrap_err();
    assert_eq!(prometheus, web);
    web
}

#[tokio::test]
async fn a_status_that_is_no_success_is_told_with_its_text() {
    for (status, body, expected) in [
        (
            "302 Found",
            "",
            "it answered 302, a redirect, and those are not followed: configure where it leads",
        ),
        (
            "400 Bad Request",
            r#"{"status":"error","errorType":"bad_data","error":"parse error: unclosed"}"#,
            "it refused with 400: parse error: unclosed",
        ),
        ("401 Unauthorized", "no\r\nentry\u{7}", "it refused with 401: no entry"),
        ("500 Internal Server Error", "<html>", "it answered 500: <html>"),
        (
            "503 Service Unavailable",
            r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#,
            "it answered 503: query timed out",
        ),
    ] {
        let stub = Stub::says(status, body).await;
        assert_eq!(both(&stub, "").await.to_string(), expected);
    }
}

#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let aim = Stub::says("200 OK", r#"{"a": 1}"#).await;
    let answer = format!("HTTP/1.1 307 Go\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n", aim.address);
    let stub = Stub::new(answer.into_bytes(), Then::Close).await;
    assert_eq!(both(&stub, "").await, ProviderError::Redirected(307));
    assert_eq!(aim.asked(), [""; 0]);
}

#[tokio::test]
async fn who_answers_nothing_or_half_of_something_is_not_waited_for() {
    for (answer, then, broken) in [
        ("", Then::Hang, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{\"a\"", Then::Hang, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{\"a\"", Then::Close, true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\"", Then::Close, true),
    ] {
        let stub = Stub::new(answer.as_bytes().to_vec(), then).await;
        let error = both(&stub, ", timeout: 200ms").await;
        assert_eq!(matches!(error, ProviderError::Broken(_)), broken, "{error:?}");
        assert_eq!(matches!(error, ProviderError::Timeout(_)), !broken, "{error:?}");
    }
}

#[tokio::test]
async fn a_huge_answer_is_not_read_to_its_end() {
    let body = "[".repeat(80_000);
    let stub = Stub::says("200 OK", &body).await;
    assert_eq!(both(&stub, "").await, ProviderError::TooLarge(64 * 1024 + 100 * 64));
}

#[tokio::test]
async fn who_is_not_there_can_not_be_reached() {
    let stub = Stub::says("200 OK", "").await;
    let address = stub.address;
    drop(stub);
    let keys = format!("type: web, url: 'http://{address}/s3cret', json_path: $.a");
    let error = loop {
        // The stub's task ends a moment after it was told to.
        match fetch(&provider(&keys), "").await {
            Err(error @ ProviderError::Unreachable(_)) => break error,
            _ => tokio::task::yield_now().await,
        }
    };
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn what_is_no_json_is_not_understood() {
    for body in ["", "{", "hello", "\u{0}", "{\"a\": 1e999}"] {
        let stub = Stub::says("200 OK", body).await;
        let url = format!("url: 'http://{}'", stub.address);
        for keys in [format!("type: prometheus, {url}"), format!("type: web, json_path: $.a, {url}")] {
            let error = fetch(&provider(&keys), "").await.unwrap_err();
            assert!(matches!(error, ProviderError::Nonsense(_)), "{body:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn secrets_are_read_from_their_files_for_each_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "first\n").unwrap();
    let stub = Stub::says("200 OK", r#"{"a": 1}"#).await;
    let base = format!("type: web, json_path: $.a, url: 'http://{}'", stub.address);
    let bearer = provider(&format!("{base}, bearer_token_file: {}", file.display()));
    fetch(&bearer, "/b").await.unwrap();
    std::fs::write(&file, "second\n").unwrap();
    fetch(&bearer, "/b").await.unwrap();
    let basic = format!("{base}, basic_auth: {{username: rm, password_file: {}}}", file.display());
    fetch(&provider(&basic), "/c").await.unwrap();
    let asked = stub.asked();
    assert!(asked[0].contains("authorization: Bearer first\r\n"), "{}", asked[0]);
    assert!(asked[1].contains("authorization: Bearer second\r\n"), "{}", asked[1]);
    // rm:second
    assert!(asked[2].contains("authorization: Basic cm06c2Vjb25k\r\n"), "{}", asked[2]);
    std::fs::write(&file, "two\nlines").unwrap();
    let error = fetch(&bearer, "/b").await.unwrap_err();
    assert!(matches!(&error, ProviderError::Secret(why) if why.contains("more than one line")), "{error:?}");
    assert_eq!(stub.asked().len(), 3);
}

#[test]
fn files_that_are_missing_are_found_when_the_manager_starts() {
    for key in [
        "bearer_token_file: /no/such",
        "ca_file: /no/such",
        "basic_auth: {username: a, password_file: /no/such}",
    ] {
        let text = format!("providers: {{it: {{type: prometheus, url: 'https://127.0.0.1', {key}}}}}");
        let error = Registry::new(&Providers::read(&text).0).unwrap_err().to_string();
        assert!(
            error.starts_with("the provider \"it\" can't be set up: ") && error.contains("/no/such"),
            "{error}"
        );
    }
}
