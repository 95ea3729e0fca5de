#!/bin/sh -e
# Takes from the packages of /opt/venv what no process opens: tests, sources of the pages' scripts, headers and the server
# of Arrow, a second client of Kubernetes, where telephones are, services of AWS beside S3 and its credentials; and symbols
# for debuggers, but of libraries that a wheel has patched, which strip may break.
cd /opt/venv/lib/python3.11/site-packages
find . -type d \( -name tests -o -path ./torch/test \) -prune -exec rm -r {} +
find . -name '*.map' -delete
rm -r pyarrow/include pyarrow/*flight* kubernetes/aio phonenumbers/geodata phonenumbers/carrierdata
find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name 's3*' ! -name 'sso*' ! -name sts ! -name signin -exec rm -r {} +
rm -f torch/bin/test_* torch/bin/*Test
find . -name '*.so*' -type f ! -path '*.libs/*' ! -path './nvidia/*' ! -path './torch/*' ! -path './triton/*' \
  -exec strip --strip-unneeded {} +
