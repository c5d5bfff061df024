use std::thread;

use anyhow::anyhow;

/// Spreads connections over threads, each with a runtime of its own, and gives what came of each thread's part.
pub fn spread<T, F>(
    connections: usize,
    threads: usize,
    part: impl Fn(usize) -> F + Clone + Send + 'static,
) -> anyhow::Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
{
    let threads = threads.clamp(1, connections);
    let workers: Vec<_> = (0..threads)
        .map(|index| {
            let connections = connections / threads + usize::from(index < connections % threads);
            let part = part.clone();
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(part(connections))
            })
        })
        .collect();
    let panicked = |_| anyhow!("a thread of the generator panicked");
    workers.into_iter().map(|worker| worker.join().map_err(panicked)?).collect()
}
