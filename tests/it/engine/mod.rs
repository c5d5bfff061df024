mod durable;
