//! What Prometheus, or what pretends to be one, may answer.

use metrics_providers::provider::{ProviderError, Samples};

use super::{WINDOW, fetch, provider, stub::Stub};

/// The answer to a question for ten points a minute apart.
async fn answered(body: &str) -> Result<Samples, ProviderError> {
    let stub = Stub::says("200 OK", body).await;
    fetch(&provider(&format!("type: prometheus, step: 60s, url: 'http://{}'", stub.address)), "x").await
}

fn matrix(series: &[&[(i64, &str)]]) -> String {
    let series: Vec<serde_json::Value> = series
        .iter()
        .map(|points| {
            let at = |minute: i64| WINDOW.start_ms / 1000 + 60 * minute;
            let values: Vec<_> = points.iter().map(|(minute, value)| (at(*minute), value)).collect();
            serde_json::json!({"metric": {}, "values": values})
        })
        .collect();
    let answer = serde_json::json!({"status": "success", "data": {"resultType": "matrix", "result": series}});
    answer.to_string()
}

#[tokio::test]
async fn numbers_are_taken_and_what_is_missing_is_counted() {
    let found = answered(&matrix(&[&[(1, "1.5"), (2, "NaN"), (4, "-2e3"), (10, "0")]])).await.unwrap();
    assert_eq!(found.values().collect::<Vec<_>>(), [1.5, -2000.0, 0.0]);
    assert_eq!((found.nan, found.gaps), (1, 6));
    assert_eq!(found.points[1].at_ms, WINDOW.start_ms + 240_000);
}

#[tokio::test]
async fn no_series_is_no_error_but_no_data() {
    assert_eq!(answered(&matrix(&[])).await.unwrap(), Samples { points: vec![], nan: 0, gaps: 10 });
    assert_eq!(answered(&matrix(&[&[]])).await.unwrap().gaps, 10);
}

#[tokio::test]
async fn every_other_answer_is_an_error() {
    let good = matrix(&[&[(1, "1")]]);
    let with = |old: &str, new: &str| {
        assert!(good.contains(old), "{good}");
        good.replacen(old, new, 1)
    };
    let data = |kind: &str, result: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
    };
    let cases = [
        ("several series", matrix(&[&[(1, "1")], &[(1, "2")]])),
        ("a string", data("string", r#"[1767225660,"hello"]"#)),
        ("a scalar", data("scalar", r#"[1767225660,"1"]"#)),
        ("a vector", data("vector", "[]")),
        ("native histograms", data("matrix", r#"[{"metric":{},"histograms":[[1767225660,{"count":"1"}]]}]"#)),
        ("a word for a number", matrix(&[&[(1, "much")]])),
        ("a bare number", with("\"1\"", "1")),
        ("infinity", matrix(&[&[(1, "+Inf")]])),
        ("less than infinity", matrix(&[&[(1, "-Inf")]])),
        ("a number beyond all", matrix(&[&[(1, "1e999")]])),
        ("a warning", with("{\"data\"", r#"{"warnings":["some blocks\nwere not reached"],"data""#)),
        (
            "an error with status 200",
            r#"{"status":"error","errorType":"execution","error":"too\u0000bad"}"#.to_owned(),
        ),
        ("no data", r#"{"status":"success"}"#.to_owned()),
        ("another API", r#"{"values":[1,2,3]}"#.to_owned()),
        ("points before the window", matrix(&[&[(0, "1")]])),
        ("points after the window", matrix(&[&[(11, "1")]])),
        ("points twice", matrix(&[&[(2, "1"), (2, "1")]])),
        ("points in disorder", matrix(&[&[(2, "1"), (1, "1")]])),
        ("points between the steps", with("1767225660", "1767225690.5")),
        ("an instant that is none", with("1767225660", "1e300")),
        ("an instant that is none either", with("1767225660", "-1e300")),
    ];
    let mut text = String::new();
    for (what, body) in cases {
        text += &format!("{what}: {}\n", answered(&body).await.unwrap_err());
    }
    insta::assert_snapshot!(text, @r#"
    several series: the query gives 2 series, and one is needed: sum or average them in the query
    a string: the query gives a string, and numbers over time are needed
    a scalar: the query gives a scalar, and numbers over time are needed
    a vector: the query gives a vector, and numbers over time are needed
    native histograms: the query gives histograms, and numbers over time are needed
    a word for a number: "much" is not a number
    a bare number: its answer can't be understood: invalid type: integer `1`, expected a string at line 1 column 37
    infinity: a value is infinite: the query may divide by 0
    less than infinity: a value is infinite: the query may divide by 0
    a number beyond all: a value is infinite: the query may divide by 0
    a warning: its answer is only partial: some blocks were not reached
    an error with status 200: its answer can't be understood: toobad
    no data: its answer can't be understood: status "success" without data
    another API: its answer can't be understood: missing field `status` at line 1 column 18
    points before the window: its answer can't be understood: a point at 1767225600.0, which wasn't asked for
    points after the window: its answer can't be understood: a point at 1767226260.0, which wasn't asked for
    points twice: its answer can't be understood: a point at 1767225720.0, which wasn't asked for
    points in disorder: its answer can't be understood: a point at 1767225660.0, which wasn't asked for
    points between the steps: its answer can't be understood: a point at 1767225690.5, which wasn't asked for
    an instant that is none: its answer can't be understood: a point at 1e300, which wasn't asked for
    an instant that is none either: its answer can't be understood: a point at -1e300, which wasn't asked for
    "#);
}

#[tokio::test]
async fn a_note_about_the_query_is_no_warning() {
    let body = matrix(&[&[(1, "1")]]).replacen(
        '{',
        r#"{"warnings":["PromQL info: metric might not be a counter"],"infos":["x"],"#,
        1,
    );
    assert_eq!(answered(&body).await.unwrap().points.len(), 1);
}

#[tokio::test]
async fn a_question_names_its_grid_and_keeps_to_its_limit() {
    let stub = Stub::says("200 OK", &matrix(&[])).await;
    let it = provider(&format!(
        "type: prometheus, url: 'http://{}/prom', max_points: 5, timeout: 7s",
        stub.address
    ));
    let found = fetch(&it, "rate(x{v=\"a&b\"}[3m])").await.unwrap();
    assert_eq!(found.gaps, 3);
    let asked = stub.asked().remove(0);
    assert!(asked.starts_with("POST /prom/api/v1/query_range HTTP/1.1\r\n"), "{asked}");
    let body = asked.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(
        body,
        "query=rate%28x%7Bv%3D%22a%26b%22%7D%5B3m%5D%29&start=1767225780.000&end=1767226140.000&step=180.000&timeout=7.000"
    );
    // Ten points, where five are allowed, are not asked for at all; nor is a window that holds none.
    assert_eq!(fetch(&it, "rate(x[1m])").await, Err(ProviderError::TooManyPoints { points: 10, most: 5 }));
    assert_eq!(fetch(&it, "rate(x[1h])").await, Ok(Samples::default()));
    assert_eq!(stub.asked().len(), 1);
}
