//! Serve only, until the command line arrives.
fn main() -> std::process::ExitCode {
    let arg = |n: &str| std::env::args().skip_while(|a| a != n).nth(1);
    leasehold_server::run(leasehold_server::Flags {
        listen: arg("--listen"),
        data: arg("--data").map(Into::into),
        config: arg("--config").map(Into::into),
        insecure: false,
    })
}
