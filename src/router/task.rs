use tokio::task::JoinHandle;

/// A task that ends with whoever holds this.
#[derive(Debug)]
pub struct Task(JoinHandle<()>);

impl From<JoinHandle<()>> for Task {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
