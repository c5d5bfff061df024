;; A component that says `thinking` as an instance of it is made, and never is one. It is small, so that it does so soon.
(component
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $io-error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $output (sub resource)))
    (alias outer 1 $io-error (type $outer-error))
    (export "error" (type $error (eq $outer-error)))
    (type $stream-error' (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $stream-error')))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $output)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output (type $outer-output))
    (export "output-stream" (type $output (eq $outer-output)))
    (export "get-stdout" (func (result (own $output))))))
  (import "wasi:http/types@0.2.0" (instance $http
    (export "incoming-request" (type (sub resource)))
    (export "response-outparam" (type (sub resource)))))
  (alias export $http "incoming-request" (type $request))
  (alias export $http "response-outparam" (type $outparam))

  (core module $memory (memory (export "memory") 1))
  (core instance $memory (instantiate $memory))
  (alias core export $memory "memory" (core memory $mem))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory $mem)))
  (core func $get-stdout (canon lower (func $stdout "get-stdout")))

  (core module $main
    (import "memory" "memory" (memory 1))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (import "host" "stdout" (func $stdout (result i32)))
    (data (i32.const 32) "thinking\n")
    (func $begin
      (call $write (call $stdout) (i32.const 32) (i32.const 9) (i32.const 16))
      (loop $on (br $on)))
    (start $begin)
    (func (export "handle") (param i32 i32)))
  (core instance $host (export "write" (func $write)) (export "stdout" (func $get-stdout)))
  (core instance $main (instantiate $main (with "memory" (instance $memory)) (with "host" (instance $host))))
  (func $handle (param "request" (own $request)) (param "response-out" (own $outparam))
    (canon lift (core func $main "handle")))
  (instance $incoming-handler (export "handle" (func $handle)))
  (export "wasi:http/incoming-handler@0.2.0" (instance $incoming-handler)))
