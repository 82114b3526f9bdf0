"""A handler in TorchServe's form: answers say what they were asked; some bodies make it fail, wait or die."""

import os
import subprocess
import time

from ts.torch_handler.base_handler import BaseHandler


class Echo(BaseHandler):
    def handle(self, data, context):
        answers = []
        for at, row in enumerate(data):
            body = row.get("body", row)
            if body == "die":
                os._exit(3)
            if body == "die and leave a process":
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(3)
            if body == "fail":
                raise KeyError("a secret of the handler's")
            if isinstance(body, dict) and "wait" in body:
                time.sleep(body["wait"])
            if isinstance(body, dict) and "start" in body:
                subprocess.Popen(["sleep", "600"])
            if isinstance(body, dict) and "type" in body:
                context.set_response_content_type(at, body["type"])
            if isinstance(body, dict) and "status" in body:
                context.set_response_status(body["status"], "", at)
            if body == "teapot":
                context.set_response_status(418, "teapot", at)
                context.set_response_header(at, "x-kind", "pot")
                context.set_response_header(at, "x-bad", "a\r\nb: c")
            if isinstance(body, bytearray):
                answers.append(bytes(body)[::-1])
            elif isinstance(body, dict) and isinstance(body.get("data"), bytes):
                answers.append({"form": body["data"].decode()})
            else:
                answers.append({"got": body, "of": len(data), "process": os.getpid()})
        return answers
