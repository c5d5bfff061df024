//! Is any call lost, cut or doubled while shares change?

#[path = "../../shared/loss/message.rs"]
pub mod message;
#[path = "../../shared/loss/wait.rs"]
pub mod wait;
