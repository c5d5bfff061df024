//! Samples written to a running Prometheus, as those who measure do: remote write, version 0.1.0
//! (<https://prometheus.io/docs/specs/prw/remote_write_spec/>), with just as much of protocol buffers and of snappy.

use super::real::Server;
use crate::world::client;

/// One series: labels in order of their names, `__name__` first, and samples (instant in milliseconds, value) in order of
/// time.
pub struct Series {
    pub labels: Vec<(&'static str, String)>,
    pub samples: Vec<(i64, f64)>,
}

impl Server {
    /// Stores the samples; none may be older than what is there already.
    pub async fn write(&self, series: &[Series]) {
        let client = client().build().unwrap();
        let answer = client
            .post(format!("http://{}/api/v1/write", self.address))
            .header("content-encoding", "snappy")
            .header("content-type", "application/x-protobuf")
            .header("x-prometheus-remote-write-version", "0.1.0")
            .body(snappy(&request(series)))
            .send()
            .await
            .unwrap();
        let status = answer.status();
        assert_eq!(status, 204, "{}", answer.text().await.unwrap());
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A field that has a length.
fn bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn request(series: &[Series]) -> Vec<u8> {
    let mut out = Vec::new();
    for Series { labels, samples } in series {
        let mut one = Vec::new();
        for (name, value) in labels {
            let mut label = Vec::new();
            bytes(&mut label, 1, name.as_bytes());
            bytes(&mut label, 2, value.as_bytes());
            bytes(&mut one, 1, &label);
        }
        for (at_ms, value) in samples {
            let mut sample = vec![1 << 3 | 1];
            sample.extend_from_slice(&value.to_le_bytes());
            sample.push(2 << 3);
            varint(&mut sample, *at_ms as u64);
            bytes(&mut one, 2, &sample);
        }
        bytes(&mut out, 1, &one);
    }
    out
}

/// All literal: a reader can't tell that nobody tried to make it smaller.
fn snappy(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, plain.len() as u64);
    for chunk in plain.chunks(1 << 16) {
        out.push(61 << 2);
        out.extend_from_slice(&((chunk.len() - 1) as u16).to_le_bytes());
        out.extend_from_slice(chunk);
    }
    out
}
