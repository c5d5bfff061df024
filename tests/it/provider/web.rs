use language::analysis::Escape;
use metrics_providers::provider::{Ask, ProviderError};

use super::{WINDOW, fetch, provider, stub::Stub};

#[tokio::test]
async fn values_are_taken_from_where_the_path_leads() {
    let body = r#"{"a": 1.5, "list": [1, null, 3], "rows": [{"v": 7, "n": "x"}, {"v": -8}], "text": "5", "none": null}"#;
    let stub = Stub::says("200 OK", body).await;
    let it =
        provider(&format!("type: web, json_path: $.a, url: 'http://{}/base/', max_points: 3", stub.address));
    assert_eq!(it.escape(), Escape::Url);
    for (path, expected, gaps) in [
        (None, vec![1.5], 0),
        (Some("$.list"), vec![1.0, 3.0], 1),
        (Some("$.list[*]"), vec![1.0, 3.0], 1),
        (Some("$.rows[*].v"), vec![7.0, -8.0], 0),
        (Some("$.rows[?@.n=='x'].v"), vec![7.0], 0),
        (Some("$.nowhere"), vec![], 1),
        (Some("$.none"), vec![], 1),
    ] {
        let found = it.fetch(Ask { text: "/stats?of=new\n", json_path: path }, WINDOW).await.unwrap();
        assert_eq!(found.values().collect::<Vec<_>>(), expected, "{path:?}");
        assert_eq!((found.gaps, found.nan), (gaps, 0), "{path:?}");
        assert!(found.points.iter().all(|point| point.at_ms == WINDOW.end_ms));
    }
    assert!(stub.asked()[0].starts_with("GET /base/stats?of=new HTTP/1.1\r\n"), "{}", stub.asked()[0]);
    for (path, expected) in
        [("$.text", r#""5" is not a number"#), ("$.rows[1]", r#"{"v":-8} is not a number"#)]
    {
        let error = it.fetch(Ask { text: "", json_path: Some(path) }, WINDOW).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn more_values_than_allowed_are_none() {
    let stub = Stub::says("200 OK", "[1, 2, 3]").await;
    let it = provider(&format!("type: web, json_path: $, url: 'http://{}', max_points: 2", stub.address));
    assert_eq!(fetch(&it, "/").await, Err(ProviderError::TooManyPoints { points: 3, most: 2 }));
}

#[tokio::test]
async fn a_query_never_leads_to_another_host() {
    let stub = Stub::says("200 OK", "[1]").await;
    let it = provider(&format!("type: web, json_path: $, url: 'http://{}'", stub.address));
    for text in ["@example.org/", ".example.org/", ":1/", "http://example.org/"] {
        let error = fetch(&it, text).await.unwrap_err();
        assert!(matches!(error, ProviderError::WrongKind(_)), "{text}: {error:?}");
    }
    assert_eq!(stub.asked(), [""; 0]);
    let nowhere = provider(&format!("type: web, url: 'http://{}'", stub.address));
    assert!(matches!(fetch(&nowhere, "/").await, Err(ProviderError::WrongKind(_))));
}
