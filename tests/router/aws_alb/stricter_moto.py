"""AWS's API by moto, where AWS is stricter as AWS documents it. A line of JSON on the standard input makes a load balancer, and is answered
with a line; at its end the program ends."""

import json
import os
import re
import sys

import boto3
from moto.elbv2 import models
from moto.elbv2.exceptions import ELBClientError
from moto.server import ThreadedMotoServer

LISTENER_NOT_SERVED = [{"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404"}}]


def check(is_so, message, error="ValidationError"):
    if not is_so:
        raise ELBClientError(error, message)


# moto takes any weight, any number of groups and any duration.
checked_by_moto = models.ELBv2Backend._validate_actions


def validate_actions(self, actions):
    checked_by_moto(self, actions)
    for action in actions:
        config = action.data.get("ForwardConfig") or {}
        groups = config.get("TargetGroups", [])
        check(len(groups) <= 5, "at most 5 target groups", "TooManyTargetGroups")
        weights = [int(group.get("Weight", 1)) for group in groups]
        check(all(0 <= weight <= 999 for weight in weights), "weights are from 0 to 999")
        check(not weights or any(weights), "at least one weight is above 0")
        sticky = config.get("TargetGroupStickinessConfig") or {}
        if str(sticky.get("Enabled", "false")).lower() == "true":
            check(1 <= int(sticky.get("DurationSeconds", 0)) <= 604800, "a duration is from 1 to 604800 s")


# moto counts no values of conditions.
conditions_by_moto = models.ELBv2Backend._validate_conditions


def validate_conditions(self, conditions):
    conditions_by_moto(self, conditions)
    if not conditions:
        return
    values = 0
    for condition in conditions:
        header = condition.get("HttpHeaderConfig") or {}
        path = condition.get("PathPatternConfig") or {}
        host = condition.get("HostHeaderConfig") or {}
        check(len(header.get("HttpHeaderName", "")) <= 40, "a header's name has at most 40 characters")
        hosts, paths = list(host.get("Values", [])), list(path.get("Values", []))
        of_this = list(header.get("Values", [])) + hosts + paths + list(condition.get("Values", []))
        check(len(of_this) <= 3, "a condition has at most 3 values")
        check(all(re.fullmatch(r"[A-Za-z0-9.*?-]*\.[A-Za-z]+", one) for one in hosts), "a host is a name with a dot")
        check(all(re.fullmatch(r"[A-Za-z0-9_.$/~\"'@:+&*?-]+", one) for one in paths), "a path has other characters")
        check(all(len(value) <= 128 for value in of_this), "a value has at most 128 characters")
        values += len(of_this)
    check(1 <= values <= 5, "a rule has 1 to 5 values")


# moto tells targets apart by their ids alone: of two ports of one address it keeps one.
def key(target, port):
    return f"{target['Id']} {target.get('Port', port)}"


def register(self, targets):
    for target in targets:
        self.targets[key(target, self.port)] = {"Id": target["Id"], "Port": target.get("Port", self.port)}


def deregister(self, targets):
    for target in targets:
        check(self.targets.pop(key(target, self.port), None), "it is not registered", "InvalidTarget")


def health_for(self, target, _):
    port = target.get("Port", self.port)
    return models.FakeHealthStatus(target["Id"], port, self.health_check_port, "healthy")


models.ELBv2Backend._validate_actions = validate_actions
models.ELBv2Backend._validate_conditions = validate_conditions
models.FakeTargetGroup.register = register
models.FakeTargetGroup.deregister = deregister
models.FakeTargetGroup.health_for = health_for

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
print(json.dumps({"port": port}), flush=True)


def client(service):
    return boto3.client(
        service,
        endpoint_url=f"http://{host}:{port}",
        region_name="eu-west-1",
        aws_access_key_id="operator",
        aws_secret_access_key="operator",
    )


subnets = [subnet["SubnetId"] for subnet in client("ec2").describe_subnets()["Subnets"][:2]]
certificates = [{"CertificateArn": client("acm").request_certificate(DomainName="localhost")["CertificateArn"]}]
elb = client("elbv2")
for line in sys.stdin:
    asked = json.loads(line)
    made = elb.create_load_balancer(Name=asked["name"], Subnets=subnets)["LoadBalancers"][0]["LoadBalancerArn"]
    for port, protocol in asked["listeners"]:
        more = {"Certificates": certificates} if protocol == "HTTPS" else {}
        elb.create_listener(
            LoadBalancerArn=made, Port=port, Protocol=protocol, DefaultActions=LISTENER_NOT_SERVED, **more
        )
    print(json.dumps({"arn": made}), flush=True)
os._exit(0)
