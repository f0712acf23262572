# LIGERDSL_PTXAS: the assembler, from the path, the CUDA toolkit or the nvidia-cuda-nvcc Python package.
file(GLOB _ptxas_wheels /usr/lib/python3*/dist-packages/nvidia/*/bin /usr/local/lib/python3*/*-packages/nvidia/*/bin
  $ENV{HOME}/.local/lib/python3*/site-packages/nvidia/*/bin $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*/bin)
find_program(LIGERDSL_PTXAS ptxas HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin ${_ptxas_wheels})
if(NOT LIGERDSL_PTXAS)
  message(WARNING "ptxas not found: the NVPTX tests will fail. Install the CUDA toolkit, or pip install nvidia-cuda-nvcc.")
endif()
